cimport cython
from muster_core.view.state.view_state cimport ViewState
from muster_core.view.tree.application cimport ViewApp

@cython.final
cdef class Commits:
    cdef public ViewState _state
    cdef public dict _fresh
    cdef public dict _failed
    cdef public dict _in_a_row
    cdef public dict _evicted
    cdef public dict _members
    cdef public set _satisfied
    cdef public set _lost
    cdef public dict _ended
    cdef public set _emptied
    cdef public list _gone
    cdef public set _unsaid
    cdef public tuple _by_app
    cdef public tuple _others

    cpdef bound(self, app, allocation)
    cpdef failed(self, ViewApp app, ask)
    cpdef touch(self, ViewApp app, ask, held)
