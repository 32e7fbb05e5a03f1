cimport cython
from muster_core.nodes.node cimport Node
from muster_core.nodes.node_index cimport NodeIndex
from muster_core.view.placements cimport Placements
from muster_core.view.state.view_state cimport ViewState
from muster_core.view.tree.application cimport ViewApp
from muster_core.view.tree.leaf cimport LeafView
from muster_core.view.tree.queue cimport ParentView, ViewQueue

@cython.final
cdef class Rounds:
    cdef public ViewState _state
    cdef public NodeIndex _nodes
    cdef public Placements _placements
    cdef public object finder
    cdef public object reservations
    cdef public object _in_force
    cdef public object _repeats
    cdef public object permits
    cdef public object _hiding
    cdef public object forecast
    cdef public object _evictor
    cdef public object _deadlocks
    cdef public object _settled
    cdef public object _reserves
    cdef public object steps

    cpdef _start_round(self, now_us)
    cpdef _end_round(self)
    @cython.locals(app=ViewApp)
    cpdef _set_exact(self, exact)
    @cython.locals(app=ViewApp)
    cpdef list _step(self, ViewQueue queue, mask, now_us)
    @cython.locals(node=Node)
    cpdef list _try_plain(self, LeafView leaf, ViewApp app, ask, bit, now_us)
