cimport cython
from muster_core.view.tree.application cimport ViewApp

@cython.final
cdef class Deadlines:
    cdef public object _stands
    cdef public list heap
    cdef public object limit

    cpdef add(self, deadline)
    @cython.locals(heap=list)
    cpdef first_us(self)
    @cython.locals(heap=list)
    cpdef take_due(self, now_us)

@cython.final
cdef class BackOffs:
    cdef public object _apps
    cdef public object _queues
    cdef public object stale
    cdef public Deadlines ends

    cpdef until_us(self, ViewApp app, ask)

@cython.final
cdef class Timers:
    cdef public object _apps
    cdef public object _gangs
    cdef public object _waiting
    cdef public object _timed_out
    cdef public object _delays
    cdef public BackOffs _back_offs
    cdef public object usages
    cdef public object protections
    cdef public object over_max
    cdef public object _stays
    cdef public object settings
    cdef public Deadlines _run_limits
    cdef public Deadlines _starts
    cdef public Deadlines _completions
    cdef public Deadlines _state_ends
    cdef public object _all

    cpdef bound(self, ViewApp app, allocation, now_us)
    cpdef entered(self, ViewApp app, now_us)
    @cython.locals(app=ViewApp)
    cpdef _holds(self, entry)
    @cython.locals(app=ViewApp)
    cpdef _lasts(self, entry)
