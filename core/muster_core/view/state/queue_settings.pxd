from muster_core.view.tree.application cimport ViewApp
from muster_core.view.tree.leaf cimport LeafView
from muster_core.view.tree.queue cimport ViewQueue
from muster_core.view.tree.queue cimport ParentView
from muster_core.structures.shapes cimport ShapeTable

cdef class UserLimits:
    cdef public ShapeTable _shapes
    cdef public dict limits
    cdef public list _stale
    cdef public dict _moved
    cdef public object changed
    cdef public dict _named

cdef class _LimitsByName:
    cdef public dict users
    cdef public dict groups

cdef class Scopes:
    cdef public object _queues
    cdef public dict _ordered
    cdef public list _new
    cdef public object passed
