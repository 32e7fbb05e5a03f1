from muster_core.view.tree.application cimport ViewApp
from muster_core.view.tree.leaf cimport LeafView
from muster_core.view.tree.queue cimport ViewQueue
from muster_core.nodes.node cimport Node
from muster_core.view.placements cimport Placements
from muster_core.view.state.view_state cimport ViewState

cdef class Permits:
    cdef public ViewState _state
    cdef public Placements _placements
    cdef public object _finder
    cdef public object _reservations
    cdef public list _barred
    cdef public list _blocked
    cdef public object _has_scopes
    cdef public dict _went
    cdef public object was_exact
    cdef public dict failures
