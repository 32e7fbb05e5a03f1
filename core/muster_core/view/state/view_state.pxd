cimport cython
from muster_core.nodes.node cimport Node
from muster_core.nodes.node_index cimport NodeIndex
from muster_core.structures.shapes cimport ShapeTable
from muster_core.view.state.timers cimport BackOffs, Timers
from muster_core.view.tree.application cimport ViewApp
from muster_core.view.tree.leaf cimport LeafView
from muster_core.view.tree.queue cimport ParentView, ViewQueue

@cython.final
cdef class ViewState:
    cdef public ShapeTable shapes
    cdef public NodeIndex nodes
    cdef public object user_limits
    cdef public dict queues
    cdef public dict apps
    cdef public object gang_shapes
    cdef public object gang_index
    cdef public dict gangs
    cdef public dict failing
    cdef public object kept_nodes
    cdef public dict hiding
    cdef public object scopes
    cdef public object divisions
    cdef public dict preempting
    cdef public dict claimants
    cdef public object delays
    cdef public object learned
    cdef public object eviction_history
    cdef public BackOffs back_offs
    cdef public Timers timers
    cdef public object reconfigured
    cdef public dict total
    cdef public dict dirty
    cdef public object settings_changed
    cdef public set touched
    cdef public dict placing
    cdef public object numbers
    cdef public object moves
    cdef public object exact

    cpdef LeafView leaf_of(self, ViewApp app)
    @cython.locals(leaf=LeafView)
    cpdef list_app(self, ViewApp app)
    @cython.locals(leaf=LeafView)
    cpdef add_pending(self, ViewApp app, ask, bit)
    cpdef remove_pending(self, ViewApp app, ask)
    cpdef forget_pending(self, LeafView leaf, ViewApp app, ask, bit)
    cpdef acquire_shape(self, ask)
    cpdef _acquire(self, shape, times)
    cpdef release_shape(self, ask)
    cpdef bit_of(self, ask)
    cpdef enter(self, ViewApp app, LeafView leaf, state, now_us)
    @cython.locals(queue=ViewQueue)
    cpdef count_running(self, LeafView leaf, ViewApp app, change)
    @cython.locals(dirty=dict)
    cpdef refresh(self)
    @cython.locals(shapes=ShapeTable, claimants=dict, queue=ViewQueue)
    cpdef _refresh(self, queues, dirty)
