cimport cython
from muster_core.structures.amounts cimport Types
from muster_core.structures.shapes cimport ShapeTable
from muster_core.view.tree.application cimport AppOrder, ViewApp
from muster_core.view.tree.queue cimport ParentView, ViewQueue, app_key

cdef class LeafView(ViewQueue):
    cdef public dict apps
    cdef public object aging
    cdef public object starting
    cdef public object under_limits
    cdef public object blocked
    cdef public dict preempting
    cdef public object watched
    cdef public object hidden
    cdef public ShapeTable refusing
    cdef public dict limits_us
    cdef public object estimates
    cdef public dict since
    cdef public object users
    cdef public dict shapes
    cdef public object slots
    cdef public object pending_mask
    cdef public list _limited
    cdef public dict _orders
    cdef public AppOrder _all
    cdef public object _measures

    cpdef top(self)
    @cython.locals(before=AppOrder, order=AppOrder)
    cpdef list_app(self, ViewApp app, total)
    cpdef remove(self, ViewApp app)
    cpdef count_preempting(self, ask, bit, change)
    cpdef count_shape(self, bit, change)
    @cython.locals(order=AppOrder, starter=ViewApp)
    cpdef below(self)
    cpdef visits(self, below, exact)
    @cython.locals(app=ViewApp)
    cpdef choose(self, mask)
