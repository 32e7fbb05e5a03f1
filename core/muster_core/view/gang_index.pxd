from muster_core.view.tree.application cimport ViewApp
from muster_core.nodes.node cimport Node
from muster_core.nodes.node_index cimport NodeIndex
from muster_core.structures.shapes cimport ShapeTable

cdef class GangShapes:
    cdef public ShapeTable _shapes
    cdef public NodeIndex _nodes
    cdef public object fitting
    cdef public dict _known
    cdef public dict _by_member
    cdef public dict _users
    cdef public object _grown

cdef class GangIndex:
    cdef public GangShapes _gang_shapes
    cdef public object _is_blocking
    cdef public dict gangs
    cdef public dict waiting
    cdef public dict invalid
    cdef public set _told_invalid
    cdef public dict strict
    cdef public dict judged
    cdef public dict stale
    cdef public dict _timed
    cdef public object changes
    cdef public object _links
    cdef public dict _groups
