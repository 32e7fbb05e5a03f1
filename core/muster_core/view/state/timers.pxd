cimport cython
from muster_core.view.tree.application cimport ViewApp
from muster_core.view.tree.leaf cimport LeafView
from muster_core.view.tree.queue cimport ViewQueue

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
cdef class Delays:
    cdef public object _queues
    cdef public object enabled
    cdef public object stale
    cdef public object passed_us
    cdef public dict aging
    cdef public list _ends
    cdef public object _limit
    cdef public set _listed
    cdef public dict _new

    cpdef add(self, LeafView leaf, since_us)
    cpdef remove(self, LeafView leaf, since_us)
    cpdef pass_to(self, now_us)
    cpdef next_us(self)

@cython.final
cdef class Timers:
    cdef public object _apps
    cdef public object _gangs
    cdef public object _waiting
    cdef public object _timed_out
    cdef public Delays _delays
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
