cimport cython
from muster_core.structures.amounts cimport Types, both_shares, past_share_of, usage_key
from muster_core.structures.shapes cimport MaskCounts, ShapeTable
from muster_core.structures.ranking cimport PriorityTally
from muster_core.view.tree.application cimport ViewApp

cdef class ParentView

cdef class ViewQueue:
    cdef public object key
    cdef public ParentView parent
    cdef public object config
    cdef public Types types
    cdef public object depth
    cdef public list asked
    cdef public list allocated
    cdef public PriorityTally tally
    cdef public object priority
    cdef public object counted
    cdef public object running
    cdef public object open
    cdef public object visiting
    cdef public object admits
    cdef public object claims
    cdef public object deserved
    cdef public object by_weight
    cdef public object order
    cdef public object has_siblings
    cdef public object stale
    cdef public tuple divisors
    cdef public object past
    cdef public dict _visited
    cdef public tuple line
    cdef public object repriced
    cdef public object _priced_with
    cdef public object _priced_at
    cdef public object _has_quotas

    cpdef top(self)
    cpdef lengthen(self)
    cpdef is_full(self)
    cpdef used(self, name)
    cpdef dict usage(self)
    cpdef below(self)
    cpdef visits(self, below, exact)
    cpdef values(self)
    cpdef admitted(self, ShapeTable shapes)
    cpdef claimed(self, ShapeTable shapes)
    cpdef shares_of(self, list allocated, list asked, total)
    cpdef find_divisors(self, total)
    cpdef refresh(self, ShapeTable shapes, total, exact)
    cpdef _reprice(self)
    cpdef key_in(self, ParentView parent, total)

cdef class ParentView(ViewQueue):
    cdef public dict children
    cdef public list _order
    cdef public MaskCounts _counts

    cpdef below(self)
    @cython.locals(child=ViewQueue)
    cpdef visits(self, below, exact)
    @cython.locals(listed=list)
    cpdef child_changed(self, ViewQueue child, before, total)
    @cython.locals(child=ViewQueue)
    cpdef first(self, mask, entering)
    cpdef _unlist(self, ViewQueue child)

cpdef queue_key(siblings, own, counted, share, pending)

cpdef app_key(ViewQueue leaf, ViewApp app, total, allocated=*, priority=*, past=*)
