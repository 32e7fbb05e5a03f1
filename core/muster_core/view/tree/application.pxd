from muster_core.nodes.node cimport Node
from muster_core.structures.shapes cimport ShapeTable
from muster_core.structures.shapes cimport MaskCounts
from muster_core.values.priority cimport PriorityTally
from muster_core.structures.ranking cimport Ranked
from muster_core.structures.ranking cimport Ranking

cdef class AppOrder

cdef class Listed(Ranked):
    cdef public AppOrder order
    cdef public object listed

cdef class AppOrder:
    cdef public MaskCounts counts
    cdef public Ranking ranking

cdef class ViewApp(Listed):
    cdef public object identity
    cdef public object state
    cdef public object stay
    cdef public dict pending
    cdef public dict backing_off
    cdef public dict parked
    cdef public dict waiting
    cdef public dict bound
    cdef public dict slots
    cdef public dict spoilt
    cdef public PriorityTally tally
    cdef public dict pending_total
    cdef public dict allocated
    cdef public object counted
    cdef public dict since_us
    cdef public dict to_relist
    cdef public dict failed_on
    cdef public dict in_a_row
    cdef public object group
    cdef public object limits
    cdef public object allowed
    cdef public list _plain
    cdef public dict _by_shape
    cdef public dict _bits
    cdef public dict _counts
    cdef public object _plain_mask
    cdef public dict _members
    cdef public object _member_mask
    cdef public dict _tried
