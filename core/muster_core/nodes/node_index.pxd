from muster_core.nodes.node cimport Node
from muster_core.structures.amounts cimport WeightedShare
from muster_core.structures.shapes cimport MaskCounts
from muster_core.structures.ranking cimport Ranking
from muster_core.structures.shapes cimport ShapeTable

cdef class NodeIndex:
    cdef public ShapeTable _shapes
    cdef public object _is_fair
    cdef public object weights
    cdef public object _by_ask
    cdef public object _leftover
    cdef public object _measured
    cdef public object _policy
    cdef public object _named
    cdef public object _learned
    cdef public dict nodes
    cdef public dict total
    cdef public Ranking _ranking
    cdef public set _kept
    cdef public list _unplaced
    cdef public MaskCounts _counts
    cdef public dict _room
    cdef public set _counted
    cdef public object grown
    cdef public object changes
    cdef public dict touched
