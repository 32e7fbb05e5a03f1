cimport cython
from muster_core.structures.amounts cimport WeightedShare
from muster_core.structures.ranking cimport Ranked

@cython.final
cdef class Node(Ranked):
    cdef public object name
    cdef public object capacity
    cdef public object reserved
    cdef public object room
    cdef public object attributes
    cdef public object schedulable
    cdef public dict used
    cdef public dict held
    cdef public WeightedShare weighing
    cdef public object matching
    cdef public dict changed
    cdef public object present
    cdef public object version
    cdef public object kept
    cdef public object devices
    cdef public tuple taints

    cpdef equip(self, capacity, reserved)
    cpdef note_change(self, holder)
    cpdef may_take(self, shape)
    cpdef exclusion(self, shape)
