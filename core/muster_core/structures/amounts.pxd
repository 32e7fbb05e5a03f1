cdef class Types:
    cdef public list names
    cdef public dict _numbers
    cdef public list _keepers

cdef class WeightedShare:
    cdef public object _parts
    cdef public object _whole
