cimport cython
from muster_core.structures.amounts cimport Types

@cython.final
cdef class MaskCounts:
    cdef public list _planes
    cdef public object mask

    cpdef replace(self, before, after)
    @cython.locals(planes=list)
    cpdef _add(self, carry)
    @cython.locals(planes=list)
    cpdef _take(self, borrow)
    cpdef keep_only(self, mask)

@cython.final
cdef class ShapeTable:
    cdef public dict shapes
    cdef public Types types
    cdef public dict amounts
    cdef public dict _bits
    cdef public dict _users
    cdef public object _idle
    cdef public list _free
    cdef public object not_choosy
    cdef public dict choosy
    cdef public object singles
    cdef public object gangs
    cdef public object changes
    cdef public object one_node
    cdef public list _prefixes
    cdef public dict _by_type
    cdef public list _devices
    cdef public dict _matching_alike

    cpdef find(self, shape)
    cpdef acquire(self, bit, times=*)
    cpdef add(self, shape)
    cpdef release(self, bit)
    cpdef list alike(self, bits)
    cpdef fitting_node(self, capacity, dict used)
    cpdef fitting_devices(self, free)
    cpdef fitting_headroom(self, headroom)
    cpdef naming(self, names)
    cpdef dict _types(self)
