cimport cython
from muster_core.nodes.node cimport Node
from muster_core.structures.amounts cimport add_to, take_from
from muster_core.structures.ranking cimport PriorityTally, Ranked, Ranking
from muster_core.structures.shapes cimport MaskCounts, ShapeTable

cdef class AppOrder

cdef class Listed(Ranked):
    cdef public AppOrder order
    cdef public object listed

@cython.final
cdef class AppOrder:
    cdef public MaskCounts counts
    cdef public Ranking ranking

    cpdef add(self, Listed app, rank)
    cpdef remove(self, Listed app)
    cpdef move(self, Listed app, rank)
    cpdef update(self, Listed app)

@cython.final
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

    cpdef allocation(self, name)
    cpdef place(self, name)
    cpdef pending_ask(self, name)
    cpdef order_of(self, ask)
    cpdef add(self, ask, bit)
    cpdef _offer_plain(self, ask, bit)
    @cython.locals(counts=dict)
    cpdef _count_plain(self, shape, bit, times)
    cpdef _offer_member(self, slot, ask, bit)
    @cython.locals(total=dict)
    cpdef remove(self, ask, bit)
    cpdef relist(self)
    @cython.locals(counts=dict, plain=list)
    cpdef _withdraw_plain(self, bit, counted)
    @cython.locals(pending=dict, tried=dict)
    cpdef _tidy(self, list heap)
    cpdef best(self, mask)
    cpdef has_untried(self, ask)
    cpdef tried(self, ask, bit)
    @cython.locals(tried=dict)
    cpdef start_round(self)
    cpdef values(self)
    @cython.locals(heap=list)
    cpdef push(self, order, ask, bit)
    cpdef _offered(self, entry)
    @cython.locals(heap=list)
    cpdef _clean(self, bit)
