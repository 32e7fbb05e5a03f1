cdef class Epoch:
    cdef public object number
    cdef public dict _told_apps
    cdef public set _told_queues
    cdef public set _told_gangs
    cdef public object _credits
    cdef public dict _reported
    cdef public dict _parents
    cdef public dict _leaves
