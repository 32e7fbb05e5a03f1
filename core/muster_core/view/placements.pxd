cimport cython
from muster_core.nodes.node cimport Node
from muster_core.structures.amounts cimport add_to, add_to_row, take_from, take_from_row
from muster_core.view.commits cimport Commits
from muster_core.view.state.view_state cimport ViewState
from muster_core.view.tree.application cimport ViewApp
from muster_core.view.tree.leaf cimport LeafView
from muster_core.view.tree.queue cimport ViewQueue

@cython.final
cdef class StateHistory:
    cdef public list placements
    cdef public list _rounds
    cdef public object _has_released

    cpdef note(self, app, ask, before, after)
    cpdef start_round(self)

@cython.final
cdef class Placements:
    cdef public ViewState _state
    cdef public StateHistory seen_states
    cdef public object groups_bound
    cdef public object failed
    cdef public dict _tried
    cdef public dict _unlisted
    cdef public Commits commits

    @cython.locals(app=ViewApp)
    cpdef start_round(self)
    cpdef tried(self, ViewApp app, ask, bit)
    @cython.locals(unlisted=dict, app=ViewApp, leaf=LeafView)
    cpdef list_apps(self)
    cpdef list assign(self, LeafView leaf, ViewApp app, ask, bit, Node node, now_us)
    cpdef _enter_bound(self, LeafView leaf, ViewApp app, allocation, Node node, now_us, list decisions)
    @cython.locals(queue=ViewQueue, allocated=list, number=Py_ssize_t)
    cpdef _use(self, LeafView leaf, ViewApp app, ask, Node node, tuple amounts, devices)
