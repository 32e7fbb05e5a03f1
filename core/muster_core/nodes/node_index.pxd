cimport cython
from muster_core.nodes.node cimport Node
from muster_core.structures.amounts cimport WeightedShare
from muster_core.structures.ranking cimport Ranking
from muster_core.structures.shapes cimport MaskCounts, ShapeTable

@cython.final
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
    cdef public set tainted
    cdef public set _kept
    cdef public list _unplaced
    cdef public MaskCounts _counts
    cdef public dict _room
    cdef public set _counted
    cdef public object grown
    cdef public object changes
    cdef public dict touched

    cpdef touch(self, Node node)
    cpdef touch_allocation(self, Node node, holder)
    cpdef find(self, bit)
    cpdef devices_for(self, Node node, shape)
    @cython.locals(held=dict, used=dict)
    cpdef take(self, Node node, resources, holder, use=*)
    cpdef give_back(self, Node node, resources, holder, use=*)
    cpdef _match(self, Node node)
    cpdef _fitting_on(self, Node node)
    cpdef _set_mask(self, Node node, mask)
    cpdef _rank(self, Node node)
    cpdef _moved(self, Node node)
