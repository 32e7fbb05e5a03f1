from muster_core.nodes.node cimport Node
from muster_core.view.tree.application cimport ViewApp
from muster_core.view.tree.leaf cimport LeafView
from muster_core.view.commits cimport Commits
from muster_core.view.state.view_state cimport ViewState

cdef class StateHistory:
    cdef public list placements
    cdef public list _rounds
    cdef public object _has_released

cdef class Placements:
    cdef public ViewState _state
    cdef public StateHistory seen_states
    cdef public object groups_bound
    cdef public object failed
    cdef public dict _tried
    cdef public dict _unlisted
    cdef public Commits commits
