from muster_core.view.tree.application cimport ViewApp
from muster_core.view.tree.leaf cimport LeafView
from muster_core.view.tree.queue cimport ViewQueue
from muster_core.nodes.node cimport Node
from muster_core.nodes.node_index cimport NodeIndex
from muster_core.structures.shapes cimport ShapeTable

cdef class EvictionHistory:
    cdef public dict _held
    cdef public dict _lost
    cdef public dict _losers
    cdef public dict tried_without
    cdef public object changes

cdef class KeptNodes:
    cdef public ShapeTable _shapes
    cdef public NodeIndex _nodes
    cdef public object _queues
    cdef public object _gangs
    cdef public object _apps
    cdef public dict leaves
    cdef public dict _keepers
    cdef public dict _by_node
    cdef public dict _by_need

cdef class DeviceDemand:
    cdef public dict _came
    cdef public object taken
    cdef public object _total
    cdef public object _taken_total
