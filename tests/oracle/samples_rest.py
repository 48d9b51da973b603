"""Functions beside the families: copies of views, coordinates, differences, factors of matrices.

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

MATRICES: dict[str, Values] = {
    "m": values(normal(3, 3) + 2 * np.eye(3)),
    "M": values(normal(2, 3, 3) + 2 * np.eye(3)),
    "r": values(normal(3, 5)),
    "t": values(normal(4, 3)),
    "T": values(normal(2, 4, 3)),
    "o": values(normal(4, 2)),
    "v": values(random.random(3)),
    "w": values(random.random(2)),
    "W": values(random.random((2, 3))),
    "C": values(normal(4, 3) + 1j * normal(4, 3), "complex128"),
    "cm": values(normal(3, 3) + 1j * normal(3, 3) + 2 * np.eye(3), "complex128"),
    "cv": values(normal(3) + 1j * normal(3), "complex128"),
    "co": values(normal(4, 2) + 1j * normal(4, 2), "complex128"),
    "h": values(normal(4, 3), "float16", grad=False),
    "i": values([[2, 1], [1, 3]], "int64"),
    "piv": values([2, 3, 3], "int32"),
    "f": values(normal(3, 3), "float32"),
}

FACTORS = """
torch.lu(m)
torch.lu(M,get_infos=True)
torch.lu(m,pivot=False)
torch.lu(v)
torch.lu(i)
m.lu()
m.lu(get_infos=True)
torch.lu_unpack(m,piv)
torch.lu_unpack(r,piv)
torch.lu_unpack(t,piv)
torch.lu_unpack(M,torch.stack([piv,piv]))
torch.lu_unpack(m,piv,unpack_pivots=False)
torch.lu_unpack(m.detach(),piv,unpack_data=False)
torch.lu_unpack(*torch.linalg.lu_factor(m))
torch.lu_unpack(m,v)
torch.lu_unpack(m,torch.tensor([1,2,9],dtype=torch.int32))
torch.lu_unpack(v,piv)
torch.lu_unpack(m)
torch.linalg.lu_solve(*torch.linalg.lu_factor(m),t.mT)
torch.linalg.lu_solve(m,piv,t.mT)
torch.linalg.lu_solve(m,piv,t,left=False)
torch.linalg.lu_solve(m,piv,t.mT,adjoint=True)
torch.linalg.lu_solve(m,piv,t,left=False,adjoint=True)
torch.linalg.lu_solve(m,piv,M)
torch.linalg.lu_solve(M,torch.stack([piv,piv]),m)
torch.linalg.lu_solve(cm,piv,C.mT)
torch.linalg.lu_solve(cm,piv,C.mT,adjoint=True)
torch.linalg.lu_solve(cm,piv,C,left=False)
torch.linalg.lu_solve(m,piv,v)
torch.linalg.lu_solve(m,piv,f)
torch.linalg.lu_solve(m,piv,t)
torch.linalg.lu_solve(m,m,m)
torch.linalg.lu_solve(r,piv,m)
torch.linalg.lu_solve(m,piv.long(),m)
torch.linalg.lu_solve(m,piv[:2],m)
torch.linalg.lu_solve(m,piv,3)
torch.lu_solve(m,f.double(),piv)
m.lu_solve(M,torch.stack([piv,piv]))
torch.lu_solve(v,m,piv)
torch.geqrf(m.detach())
torch.geqrf(r.detach())
torch.geqrf(T.detach())
torch.geqrf(C.detach())
torch.geqrf(f.detach())
torch.geqrf(v)
torch.geqrf(i)
torch.geqrf(3)
torch.geqrf(m)
torch.orgqr(m,v)
torch.orgqr(t,v)
torch.orgqr(t,w)
torch.orgqr(*torch.geqrf(t.detach()))
torch.linalg.householder_product(T,W)
torch.linalg.householder_product(C,cv)
torch.linalg.householder_product(r,v)
torch.linalg.householder_product(t,torch.ones(4).double())
torch.linalg.householder_product(t,v.float())
torch.linalg.householder_product(v,v)
torch.linalg.householder_product(t,v[None])
torch.linalg.householder_product(t,3)
torch.orgqr(h,v.half())
torch.orgqr(3,v)
t.orgqr(v)
torch.ormqr(t,v,o)
torch.ormqr(t,v,o,transpose=True)
torch.ormqr(t,v,o.mT,left=False)
torch.ormqr(t,v,o.mT,left=False,transpose=True)
torch.ormqr(C,cv,co)
torch.ormqr(C,cv,co,transpose=True)
torch.ormqr(C,cv,co.mT,False,True)
torch.ormqr(t,v,o[:2])
torch.ormqr(t,v,o,left=False)
torch.ormqr(v,v,o)
torch.ormqr(t,v,o.float())
t.ormqr(w,o)
torch.solve(m,m)
torch.lstsq(m,m)
m.lstsq(m)
torch.matrix_rank(m)
torch.eig(m)
m.symeig()
torch.norm_except_dim(m)
torch.norm_except_dim(m,2,-1)
torch.norm_except_dim(m,2,1)
torch.norm_except_dim(T,2,1)
torch.norm_except_dim(T,2,2)
torch.norm_except_dim(T,1,0)
torch.norm_except_dim(m,2,5)
torch.norm_except_dim(i)
torch.nuclear_norm(m)
torch.nuclear_norm(m,keepdim=True)
torch.nuclear_norm(T,(0,1))
torch.nuclear_norm(T,dim=(0,1),keepdim=True)
torch.nuclear_norm(T)
torch.nuclear_norm(T,(0,))
torch.nuclear_norm(v)
torch.frobenius_norm(m,[])
torch.frobenius_norm(m,(0,1))
torch.frobenius_norm(m,0)
torch.frobenius_norm(m,(0,1),True)
torch.frobenius_norm(T,(0,2))
torch.frobenius_norm(T,(0,1,2))
torch.frobenius_norm(m)
torch.frobenius_norm(m,(0,0))
(torch.manual_seed(3),torch.svd_lowrank(t.detach(),q=2)[1])[1]
(torch.manual_seed(3),(lambda U,S,V:(S,U*S@V.mT))(*torch.svd_lowrank(r.detach(),q=2,niter=1)))[1]
(torch.manual_seed(3),(lambda U,S,V:(S,U*S@V.mT))(*torch.svd_lowrank(T.detach(),q=2,M=t.detach())))[1]
(torch.manual_seed(3),(lambda U,S,V:(S,U*S@V.mT))(*torch.svd_lowrank(m)))[1]
(torch.manual_seed(3),(lambda U,S,V:(S,U*S@V.mT))(*torch.pca_lowrank(t.detach())))[1]
(torch.manual_seed(3),(lambda U,S,V:(S,U*S@V.mT))(*torch.pca_lowrank(r.detach(),q=2,center=False)))[1]
torch.pca_lowrank(t,q=9)
torch.pca_lowrank(t,niter=-1)
torch.pca_lowrank(i)
torch.svd_lowrank(t,q=-1)
torch.svd_lowrank(t,M=m)
"""

table.programs(COPIES, INPUTS)
table.programs(PLACES, INPUTS)
table.programs(SCATTERED, INPUTS, first=False)
table.programs(FACTORS, MATRICES, tolerance=(1e-7, 1e-7))
