"""Functions beside the families: copies of views, coordinates, differences, windows, whole recurrent layers.

One program per line over the inputs below: both libraries must give the same values, graph and gradients, or refuse it
in the same words.
"""

from __future__ import annotations

import numpy as np

from tests.oracle.sampling import Table, Values, values

table = Table("rest")

random = np.random.default_rng(7)


def normal(*shape: int) -> np.ndarray:
    return random.standard_normal(shape)


INPUTS: dict[str, Values] = {
    "x": values(normal(3, 4)),
    "y": values(normal(2, 2)),
    "v": values(normal(6)),
    "s": values(normal(1, 3, 1)),
    "z": values(1.5),
    "c": values(normal(3, 2) + 1j * normal(3, 2), "complex128"),
    "p": values(normal(3, 2)),
    "i": values([[1, 5], [3, 11]], "int64"),
    "b": values([True, False, True], "bool"),
    "f": values(normal(4), "float32"),
    "steps": values([0.0, 1.0, 3.0]),
    "points": values(random.random((10, 2)), "float32", grad=False),
    "u": values(random.random(10), "float32", grad=False),
}

COPIES = """
torch.alias_copy(x)
torch.alias_copy(c)
torch.alias_copy(i)
torch.alias_copy(3)
torch.alias_copy()
torch.alias_copy(x.t()).stride()
torch.detach_copy(x.detach())
torch.view_copy(x,(4,3))
torch.view_copy(x,(-1,))
torch.view_copy(x.t(),(12,))
torch.view_copy(x,(5,))
torch.view_copy(x,torch.float32)
torch.view_copy(i,dtype=torch.int32)
torch.view_copy(x)
torch.expand_copy(s,(2,3,5))
torch.expand_copy(x,(2,3,4),implicit=True)
torch.expand_copy(x,(-1,-1))
torch.expand_copy(x,(2,))
torch.expand_copy(x,2)
torch.permute_copy(x,(1,0))
torch.permute_copy(x,(0,))
torch.permute_copy(x,(1,1))
torch.permute_copy(x,1,0)
torch.transpose_copy(x,0,-1)
torch.transpose_copy(x,0,5)
torch.t_copy(x)
torch.t_copy(s)
torch.squeeze_copy(s)
torch.squeeze_copy(s,0)
torch.squeeze_copy(s,(0,2))
torch.squeeze_copy(x,5)
torch.unsqueeze_copy(x,-1)
torch.unsqueeze_copy(x,9)
torch.view_as_real_copy(c)
torch.view_as_real_copy(x)
torch.view_as_complex_copy(p)
torch.view_as_complex_copy(p.detach())
torch.view_as_complex_copy(x)
torch.select_copy(x,1,-1)
torch.select_copy(x,0,9)
torch.select_copy(x,5,0)
torch.select_copy(z,0,0)
torch.select_copy(c,0,0)
torch.slice_copy(x)
torch.slice_copy(x,1,1,4,2)
torch.slice_copy(x,1,None,2)
torch.slice_copy(x,0,-2,-1)
torch.slice_copy(x,0,0,9,0)
torch.slice_copy(x,5)
torch.slice_copy(z)
torch.slice_copy(c,0,1)
torch.diagonal_copy(x)
torch.diagonal_copy(x,1)
torch.diagonal_copy(x,0,1,1)
torch.unfold_copy(x,1,2,1)
torch.unfold_copy(x,0,9,1)
torch.unfold_copy(x,1,2,0)
torch.unfold_copy(x,3,1,1)
torch.as_strided_copy(x,(2,2),(1,2))
torch.as_strided_copy(x,(2,2),(1,2),3)
torch.as_strided_copy(x[1:],(2,2),(1,2))
torch.as_strided_copy(x,(2,2),(-1,1))
torch.split_copy(x,2)
torch.split_copy(x,3,1)
torch.split_copy(x,-1)
torch.split_copy(x,[1,2])
torch.split_with_sizes_copy(x,[1,2])
torch.split_with_sizes_copy(x,[1,1])
torch.split_with_sizes_copy(x,3)
torch.unbind_copy(x)
torch.unbind_copy(x,1)
torch.unbind_copy(z)
torch.unbind_copy(torch.ones(0,2))
torch.narrow_copy(x,1,1,2)
torch.narrow_copy(x.detach(),0,-2,2)
torch.narrow_copy(x,0,torch.tensor(1),1)
torch.narrow_copy(x,0,0,9)
torch.narrow_copy(x,0,4,0)
torch.narrow_copy(x,0,0,-1)
x.narrow_copy(1,0,2)
x.narrow_copy(0,1)
torch.unsafe_split(x,2)
torch.unsafe_split(x,3,-1)
torch.unsafe_split(x,0)
torch.unsafe_split(x,[1,2])
torch.unsafe_split(z,1)
x.unsafe_split(2,-1)
torch.unsafe_split_with_sizes(x,[1,2])
torch.unsafe_split_with_sizes(x,[1])
torch.unsafe_chunk(x,2)
torch.unsafe_chunk(x,5)
torch.unsafe_chunk(x,0)
torch.unsafe_chunk(x)
torch.unsafe_chunk(z,1)
[part.storage_offset() for part in x.unsafe_chunk(2)]
x.sum_to_size(3,1)
x.sum_to_size((4,))
x.sum_to_size(())
x.sum_to_size(3,4)
x.sum_to_size(2,4)
x.sum_to_size()
s.sum_to_size(1,1,1)
i.sum_to_size(1)
torch.detach_(x*2)
torch.as_strided_(x*2,(2,2),(4,1))
torch.addmv_(v[:3]*2,x,f.double())
torch.resize_as_(torch.ones(4),torch.ones(2,2))
"""

# torch gives the source's gradient to the input too, so there are values here only.
SCATTERED = """
torch.as_strided_scatter(x,y,(2,2),(4,1),1)
torch.as_strided_scatter(x,y,(2,2),(1,2))
torch.as_strided_scatter(x[1:],y,(2,2),(4,1))
torch.as_strided_scatter(x,y.float(),(2,2),(4,1))
torch.as_strided_scatter(x,x,(2,2),(1,2))
torch.as_strided_scatter(x,x,(30,4),(4,1))
x.as_strided_scatter(y,(2,2),(4,1),2)
torch.as_strided_scatter(x.detach().t(),y.detach(),(2,2),(4,1),1)
"""

PLACES = """
torch.unravel_index(i,(3,4))
torch.unravel_index(i,12)
torch.unravel_index(i,5)
torch.unravel_index(i,[3,4])
torch.unravel_index(i,())
torch.unravel_index(i,(2,2))
torch.unravel_index(torch.tensor([-1]),(3,4))
torch.unravel_index(torch.tensor([],dtype=torch.int64),(0,4))
torch.unravel_index(torch.tensor(5),torch.Size([3,4]))
torch.unravel_index(i,(-1,4))
torch.unravel_index(x,(3,4))
torch.unravel_index(b,(3,4))
torch.unravel_index(i,(3.,4))
torch.unravel_index(i,'a')
torch.nonzero_static(i-1,size=3)
torch.nonzero_static(i-1,size=5,fill_value=7)
torch.nonzero_static(b,size=0)
torch.nonzero_static(b,size=-1)
torch.nonzero_static(b)
torch.nonzero_static(z,size=2)
b.nonzero_static(size=2)
torch.gradient(v)
torch.gradient(v,spacing=2.)
torch.gradient(x)
torch.gradient(x,dim=0)
torch.gradient(x,dim=(1,0),spacing=[1.,2.])
torch.gradient(x,edge_order=2)
torch.gradient(x,spacing=2,dim=-1,edge_order=2)
torch.gradient(x,spacing=torch.tensor(2.))
torch.gradient(x,spacing=[steps],dim=0)
torch.gradient(x,spacing=[steps],dim=0,edge_order=2)
torch.gradient(x,spacing=[steps,v[:4].exp().cumsum(0)])
torch.gradient(c)
torch.gradient(i[0])
torch.gradient(f)
torch.gradient(i[0],spacing=2)
torch.gradient(i.to(torch.uint8))
torch.gradient(b)
torch.gradient(z)
torch.gradient(x,spacing=[2.])
torch.gradient(x,spacing=[steps],dim=(0,1))
torch.gradient(v,spacing=[y])
torch.gradient(v,spacing=v)
torch.gradient(x,spacing='a')
torch.gradient('a')
torch.gradient(x,edge_order=3)
torch.gradient(x[:2],edge_order=2)
torch.gradient(x[:1])
torch.gradient(x,dim=(0,0))
torch.gradient(v,dim=2)
torch.histogramdd(points,bins=[2,3])
torch.histogramdd(points,bins=2)
torch.histogramdd(points,[torch.tensor([0.,.5,1.]),torch.tensor([0.,.2,.5,1.])])
torch.histogramdd(points,[2,2],range=[0.,1.,0.,.5])
torch.histogramdd(points,[2,2],weight=u,density=True)
torch.histogramdd(points.reshape(2,5,2),[3,1],density=True)
torch.histogramdd(torch.zeros(0,2),[2,2])
torch.histogramdd(p,(2,2)).hist
torch.histogramdd(points,[2,2,2])
torch.histogramdd(points,[2,0])
torch.histogramdd(i,[2,2])
torch.histogramdd(v,[2])
torch.histogramdd(points,[2,2],range=[0.,1.])
torch.histogramdd(points,[2,2],range=[1.,0.,0.,1.])
torch.histogramdd(points,[2,2],weight=u[:3])
torch.histogramdd(points,[torch.tensor([0.,.5,1.])])
"""

table.programs(COPIES, INPUTS)
table.programs(PLACES, INPUTS)
table.programs(SCATTERED, INPUTS, first=False)
