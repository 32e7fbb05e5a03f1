cimport cython

cdef class _Block

cdef class Ranked:
    cdef public object mask
    cdef public object rank
    cdef public _Block block

@cython.final
cdef class _Block:
    cdef public list ranks
    cdef public list items
    cdef public object union

    @cython.locals(item=Ranked)
    cpdef tighten(self)

@cython.final
cdef class Ranking:
    cdef public list _blocks
    cdef public list _ends
    cdef public object _most

    @cython.locals(block=_Block, ends=list, at=Py_ssize_t, position=Py_ssize_t)
    cpdef add(self, Ranked item, rank)
    cpdef remove(self, Ranked item)
    @cython.locals(ranks=list, at=Py_ssize_t)
    cpdef _take_out(self, _Block block, Py_ssize_t position)
    @cython.locals(block=_Block, ranks=list, items=list, position=Py_ssize_t, last=Py_ssize_t)
    cpdef move(self, Ranked item, rank)
    cpdef widen(self, Ranked item)
    @cython.locals(block=_Block, item=Ranked)
    cpdef first(self, mask)

@cython.final
cdef class PriorityTally:
    cdef public dict _counts
    cdef public list _heap
    cdef public object recomputations

    @cython.locals(counts=dict)
    cpdef add(self, priority, times=*)
    cpdef remove(self, priority, times=*)
    cpdef replace(self, old, new)
    @cython.locals(heap=list, counts=dict)
    cpdef top(self)
