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

SEGMENTS: dict[str, Values] = {
    "x": values([1.0, 3.0, 3.5, 2.0, 5.0, 0.5]),
    "y": values(normal(5, 2)),
    "q": values(normal(2, 4, 2)),
    "k": values([3, 0, 2, 1], "int64"),
    "two": values([2, 3], "int64"),
    "table": values([[1, 3], [4, 0]], "int64"),
    "half": values([1.0, 3.0, 3.0, 2.0, 5.0, 0.5], "float16"),
}

RUNS = """
torch.segment_reduce(x,'sum',lengths=k)
torch.segment_reduce(x,'mean',lengths=k)
torch.segment_reduce(x,'max',lengths=k)
torch.segment_reduce(x,'min',lengths=k)
torch.segment_reduce(x,'prod',lengths=k)
torch.segment_reduce(x,'sum',lengths=k,initial=1)
torch.segment_reduce(x,'mean',lengths=k,initial=1.5)
torch.segment_reduce(x,'amax',lengths=k,initial=4)
torch.segment_reduce(x,'amin',lengths=k,initial=1)
torch.segment_reduce(x,'prod',lengths=k,initial=2)
torch.segment_reduce(y,'sum',lengths=two)
torch.segment_reduce(y,'mean',lengths=two.int())
torch.segment_reduce(y,'prod',offsets=torch.tensor([0,2,5]))
torch.segment_reduce(y,'max',offsets=torch.tensor([0,4,5]),unsafe=True)
torch.segment_reduce(y,'sum',offsets=torch.tensor([1,3,4]))
torch.segment_reduce(q,'sum',lengths=table,axis=1)
torch.segment_reduce(q,'mean',lengths=table,axis=-2)
torch.segment_reduce(q,'min',lengths=table,axis=1)
torch.segment_reduce(half,'sum',lengths=k)
torch.segment_reduce(x,'sum',lengths=two)
torch.segment_reduce(x,'xx',lengths=k)
torch.segment_reduce(x,3,lengths=k)
torch.segment_reduce(x,'sum')
torch.segment_reduce(x,'sum',lengths=x.detach())
torch.segment_reduce(x,'sum',lengths=torch.tensor([9,-3]))
torch.segment_reduce(x,'sum',lengths=k,axis=1)
torch.segment_reduce(y,'sum',lengths=two,axis=1)
torch.segment_reduce(x,'sum',lengths=k,indices=k)
torch.segment_reduce(x,'sum',lengths=k,initial='a')
torch.segment_reduce(k,'sum',lengths=torch.tensor([4]))
"""

WINDOWS = "\n".join(
    f"torch.{name}_window({arguments})"
    for name in ("bartlett", "blackman", "hamming", "hann", "kaiser")
    for arguments in (
        "5", "6,False", "8,dtype=torch.float64", "0", "1", "2", "-1", "5.", "5,True,.5", "5,.5", "5,dtype=torch.int64", "5,dtype=torch.complex64", "5,requires_grad=True", "7,'a'",
    )  # fmt: skip
)
WINDOWS += """
torch.hamming_window(5,True,.5,.3)
torch.kaiser_window(5,True,5.)
torch.kaiser_window(5,periodic=False,beta=1)
torch.kaiser_window(50,True,1,dtype=torch.float64)
torch.hann_window(5,device='cpu')
torch.hann_window()
"""

HALF_WINDOWS = """
torch.hann_window(9,dtype=torch.float16)
torch.kaiser_window(9,dtype=torch.bfloat16)
torch.bartlett_window(9,dtype=torch.bfloat16)
"""

GAMMA: dict[str, Values] = {
    "a": values(random.random(6) * 5, grad=False),
    "x": values(random.random(6) * 9),
    "g": values(random.random(6)),
    "edge": values([0.0, 0.0, 1.0, 1.0, -1.0, 1.0, 2.0, 0.0], grad=False),
    "other": values([0.0, 1.0, 0.0, -1.0, 1.0, np.inf, np.nan, np.inf], grad=False),
    "i": values([1, 2], "int64"),
    "f": values([1.0, 2.5], "float32"),
}

SHARES = """
torch.igamma(a,x)
torch.igammac(a,x)
a.igamma(x)
a.igammac(x)
a.clone().igamma_(x)
a.clone().igammac_(x)
torch.igamma(a[:,None],x)
torch.igamma(edge,other)
torch.igammac(edge,other)
torch.igamma(f,f)
torch.igamma(f.half(),f.half())
torch.igamma(g,x)
torch.igamma(a,2.)
torch.igamma(i,i)
torch.igamma(f.cfloat(),f)
torch.special.gammainc(a,x)
torch.special.gammaincc(a,x)
"""

LAYERS: dict[str, Values] = {
    "x": values(normal(5, 2, 3)),
    "h": values(normal(1, 2, 4)),
    "c": values(normal(1, 2, 4)),
    "h2": values(normal(2, 2, 4)),
    "packed": values(normal(7, 3)),
    "sizes": values([2, 2, 1, 1, 1], "int64"),
    "w1": values(normal(4, 3)),
    "u1": values(normal(4, 4)),
    "b1": values(normal(4)),
    "w3": values(normal(12, 3)),
    "v3": values(normal(12, 8)),
    "u3": values(normal(12, 4)),
    "b3": values(normal(12)),
    "w4": values(normal(16, 3)),
    "u4": values(normal(16, 4)),
    "p4": values(normal(16, 2)),
    "r4": values(normal(2, 4)),
    "hp": values(normal(1, 2, 2)),
    "b4": values(normal(16)),
    "f": values(normal(5, 2, 3), "float32"),
}

RECURRENT = """
torch.lstm(x,(h,c),(w4,u4,b4,b4),True,1,0.,False,False,False)
torch.lstm(x.mT.mT,(h,c),(w4,u4),False,1,0.,True,False,False)
torch.lstm(x.transpose(0,1),(h,c),(w4,u4,b4,b4),True,1,0.,False,False,True)
torch.lstm(x,(hp,c),(w4,p4,b4,b4,r4),True,1,0.,False,False,False)
torch.gru(x,h,(w3,u3,b3,b3),True,1,0.,False,False,False)
torch.gru(x,h2,(w3,u3,b3,b3,w3,u3,b3,b3),True,1,0.,False,True,False)
torch.gru(x,h2,(w3,u3,w3[:,:1].expand(12,4),u3),False,2,0.,False,False,False)
(torch.manual_seed(5),torch.gru(x,h2,(w3,u3,w3[:,:1].expand(12,4),u3),False,2,.5,True,False,False))[1]
torch.gru(x.transpose(0,1),h,(w3,u3,b3,b3),True,1,0.,False,False,True)
torch.rnn_tanh(x,h,(w1,u1,b1,b1),True,1,0.,False,False,False)
torch.rnn_relu(x,h,(w1,u1),False,1,0.,False,False,False)
torch.lstm(packed,sizes,(h,c),(w4,u4,b4,b4),True,1,0.,False,False)
torch.gru(packed,sizes,h,(w3,u3,b3,b3),True,1,0.,False,False)
torch.rnn_tanh(packed,sizes,h,(w1,u1,b1,b1),True,1,0.,False,False)
torch.lstm(x,(h,c),(w4,u4),True,1,0.,False,False,False)
torch.lstm(x,(h,),(w4,u4,b4,b4),True,1,0.,False,False,False)
torch.gru(x,(h,),(w3,u3,b3,b3),True,1,0.,False,False,False)
torch.gru(x,h,(w3,u3,b3,b3)*2,True,2,0.,False,False,False)
torch.gru(x,h)
torch.lstm_cell(x[0],(h[0],c[0]),w4,u4,b4,b4)
torch.lstm_cell(x[0],(h[0],c[0]),w4,u4)
torch.gru_cell(x[0],h[0],w3,u3,b3,b3)
torch.gru_cell(x[0],h[0],w3,u3)
torch.rnn_tanh_cell(x[0],h[0],w1,u1,b1,b1)
torch.rnn_relu_cell(x[0],h[0],w1,u1,b1,b1)
torch.gru_cell(x[0],h[0,:1],w3,u3,b3,b3)
torch.gru_cell(x[0,:,:2],h[0],w3,u3,b3,b3)
torch.gru_cell(x[0],h[0,:,:2],w3,u3,b3,b3)
torch.lstm_cell(x[0],h[0],w4,u4,b4,b4)
torch.lstm_cell(x[0],(h[0],),w4,u4,b4,b4)
"""

NATIVE: dict[str, Values] = {
    "x": values(normal(5, 2, 3)),
    "k": values(normal(3, 3, 6)),
    "o": values(normal(6)),
    "b": values(normal(3, 4, 10)),
    "w": values(random.random(4)),
    "rm": values(normal(4), grad=False),
    "rv": values(random.random(4), grad=False),
    "im": values(normal(2, 3, 4, 4)),
    "f3": values(normal(6, 3, 3, 3)),
    "f1": values(normal(4, 6, 3)),
    "g1": values(normal(6, 4, 3)),
    "grid": values(random.random((2, 4, 4, 2)) * 2 - 1),
    "space": values(random.random((2, 1, 4, 4, 3)) * 2 - 1),
    "theta": values(normal(2, 2, 3)),
    "theta3": values(normal(2, 3, 4)),
    "e": values(normal(5, 3)),
    "i": values([1, 2, 4, 3, 0, 1], "int64"),
    "off": values([0, 2, 2, 5], "int64"),
    "s": values(random.random(6)),
    "p": values(normal(3, 4)),
    "q": values(random.random((3, 4)), grad=False),
    "t": values([1.0, -1.0, 1.0], grad=False),
}

BENEATH = """
torch.conv_tbc(x,k,o,1)
torch.conv_tbc(x,k,o)
torch.conv_tbc(x,k[:,:2],o)
torch.conv_tbc(x[0],k,o)
torch.conv_tbc(x,k[0],o)
torch.conv_tbc(x,k,o[:5])
torch.conv_tbc(x,k,None)
torch.convolution(b,g1,None,[1],[1],[1],False,[0],1)
torch.convolution(b,f1,None,[2],[1],[1],True,[1],1)
torch.convolution(im,f3,o,(1,1),(1,1),(1,1),False,(0,0),1)
torch.convolution(im,f3,o,[2],[1],[1],False,[0],1)
torch.convolution(im,f3,None,1,1,1,False,0,1)
torch.convolution(im[0],f3,None,(1,1),(1,1),(1,1),False,(0,0),1)
torch.native_batch_norm(b,w,w,rm.clone(),rv.clone(),True,.1,1e-5)
torch.native_batch_norm(b,w,w,rm,rv,False,.1,1e-5)
torch.native_batch_norm(b,None,None,None,None,True,.1,1e-5)
torch.native_group_norm(b,w,w,3,4,10,2,1e-5)
torch.native_group_norm(b,None,None,3,4,10,4,1e-5)
torch.native_group_norm(b,w,w,3,4,10,3,1e-5)
torch.grid_sampler(im,grid,0,0,True)
torch.grid_sampler_2d(im,grid,1,1,False)
torch.grid_sampler_3d(im[:,:,None],space,0,0,True)
torch.grid_sampler_3d(im[:,:,None],space,2,0,True)
torch.grid_sampler(im,grid,'bilinear',0,True)
torch.affine_grid_generator(theta,[2,3,4,5],True)
torch.affine_grid_generator(theta,(2,3,4,5),False)
torch.affine_grid_generator(theta3,(2,3,4,5,6),False)
torch.affine_grid_generator(theta,(2,3,4),False)
torch.affine_grid_generator(theta[:,:,:2],(2,3,4,5),False)
torch.embedding_bag(e,i,off,False,3)
torch.embedding_bag(e,i,off,False,1,False,s)
torch.embedding_bag(e,i+20,off)
torch.embedding_bag(e,s.detach(),off)
torch.binary_cross_entropy_with_logits(p,q)
torch.binary_cross_entropy_with_logits(p,q,q,q,1)
torch.binary_cross_entropy_with_logits(p,q,reduction=2)
torch.binary_cross_entropy_with_logits(p,q,reduction='mean')
torch.binary_cross_entropy_with_logits(p,q[:1])
torch.cosine_embedding_loss(p,q,t)
torch.cosine_embedding_loss(p,q,t,.5,1)
torch.hinge_embedding_loss(p,t[:,None])
torch.hinge_embedding_loss(p,t[:,None],.5,2)
torch.kl_div(p,q)
torch.kl_div(p,q,1)
torch.kl_div(p,q,2,log_target=True)
torch.margin_ranking_loss(p,q,t[:,None])
torch.margin_ranking_loss(p,q,t[:,None],.1,2)
torch.margin_ranking_loss(p,q,t)
torch.poisson_nll_loss(p,q,True,False,1e-8,1)
torch.poisson_nll_loss(p.exp(),q,False,True,1e-8,0)
torch.poisson_nll_loss(p,q)
torch.triplet_margin_loss(p,q,p*2)
torch.triplet_margin_loss(p,q,p*2,2.,1.,1e-6,True,1)
"""

ONCE = """
torch.embedding_bag(e,i,off,False,1,include_last_offset=True)
torch.embedding_bag(e,i,off,False,0,False,s)
torch.embedding_bag(e,i,off,False,1)
torch.embedding_bag(e,i,off)
torch.grid_sampler(im,grid,2,2,True)
torch.embedding_bag(e,i,off,False,2)
"""

table.programs(COPIES, INPUTS)
table.programs(PLACES, INPUTS)
table.programs(SCATTERED, INPUTS, first=False)
table.programs(FACTORS, MATRICES, tolerance=(1e-7, 1e-7))
table.programs(RUNS, SEGMENTS, second=False)  # torch has no second gradient
table.programs(WINDOWS, {}, tolerance=(1e-5, 1e-6))
table.programs(HALF_WINDOWS, {}, tolerance=(1e-2, 1e-2))  # torch rounds between the steps
table.programs(SHARES, GAMMA)
table.programs(RECURRENT, LAYERS, tolerance=(1e-8, 1e-8))
table.programs(BENEATH, NATIVE, tolerance=(1e-8, 1e-8))
table.programs(ONCE, NATIVE, second=False)
