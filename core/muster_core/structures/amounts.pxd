cimport cython

@cython.final
cdef class Types:
    cdef public list names
    cdef public dict _numbers
    cdef public list _keepers

    cpdef find(self, name)
    cpdef learn(self, names)
    cpdef row(self, amounts)
    cpdef dict amounts(self, list row)
    cpdef lengthen(self, list row)

@cython.final
cdef class WeightedShare:
    cdef public object _parts
    cdef public object _whole

    cpdef utilisation(self, used)

cpdef add_to_row(list row, amounts)

cpdef take_from_row(list row, amounts)

cpdef add_to(dict total, amounts, times=*)

cpdef take_from(dict total, amounts, times=*)

cpdef replace_in(dict total, before, after)

cpdef share(used, whole)

@cython.locals(share=double, pending=double, part=double)
cpdef both_shares(list allocated, list asked, divisors)

@cython.locals(most=double, part=double)
cpdef past_share_of(list used, list allocated, tick_us, wholes)

@cython.locals(shares=list)
cpdef usage_key(allocated, guaranteed, total)
