from muster_core.structures.amounts cimport Types

cdef class MaskCounts:
    cdef public list _planes
    cdef public object mask

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
