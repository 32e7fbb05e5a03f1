cimport cython
from muster_core.structures.amounts cimport Types, add_to, add_to_row, take_from
from muster_core.view.state.view_state cimport ViewState
from muster_core.view.tree.application cimport ViewApp
from muster_core.view.tree.leaf cimport LeafView
from muster_core.view.tree.queue cimport ParentView, ViewQueue

@cython.final
cdef class Intake:
    cdef public ViewState _state
    cdef public set left
    cdef public object _freed
    cdef public dict reported

    @cython.locals(leaf=ViewQueue, app=ViewApp, types=Types, queue=ViewQueue)
    cpdef _count(self, report)
    cpdef _act(self, ViewApp app, LeafView leaf, action, now_us)
    cpdef _free(self, ViewApp app, allocation)
    cpdef _place(self, ViewApp app, allocation)
    @cython.locals(app=ViewApp, leaf=LeafView)
    cpdef end_state(self, key, now_us)
    cpdef _remove_app(self, ViewApp app, LeafView leaf)
