"""Functions beside the families of layers: runs, windows, incomplete gamma, whole recurrent layers, and the functions
beneath nn.functional, whose options are numbers.

One program per line over the inputs below, as in samples_rest.py.
"""

from __future__ import annotations

import numpy as np

from tests.oracle.sampling import Table, Values, values

table = Table("beneath")

random = np.random.default_rng(8)


def normal(*shape: int) -> np.ndarray:
    return random.standard_normal(shape)


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
        "5 6,False 8,dtype=torch.float64 0 1 2 -1 5. 5,True,.5 5,.5 5,dtype=torch.int64 5,dtype=torch.complex64 "
        "5,requires_grad=True 7,'a'"
    ).split()
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

SIGNALS: dict[str, Values] = {
    "x": values(normal(2, 40)),
    "v": values(normal(40)),
    "z": values(normal(40) + 1j * normal(40), "complex128"),
    "w": values(random.random(16) + 0.2),
    "i": values(np.arange(80).reshape(2, 40), "int64"),
    "S": values(normal(2, 9, 7) + 1j * normal(2, 9, 7), "complex128"),
    "s": values(normal(9, 7) + 1j * normal(9, 7), "complex128"),
    "T": values(normal(2, 16, 7) + 1j * normal(2, 16, 7), "complex128"),
}

SPECTRA = """
torch.stft(x,16,return_complex=True)
torch.stft(x,16,window=w,return_complex=True)
torch.stft(v,16,4,window=w,return_complex=True)
torch.stft(x,16,4,12,window=w[:12],return_complex=True)
torch.stft(x,16,4,12,return_complex=True)
torch.stft(x,16,4,window=w,center=False,return_complex=True)
torch.stft(x,16,4,window=w,pad_mode='constant',return_complex=True)
torch.stft(x,16,4,window=w,normalized=True,return_complex=True)
torch.stft(x,16,4,window=w,onesided=False,return_complex=True)
torch.stft(z,16,4,window=w,return_complex=True)
torch.stft(z,16,4)
torch.stft(x,16,4,window=torch.complex(w,w),return_complex=True)
torch.stft(x,16,4,return_complex=False)
torch.stft(x,16,window=w.float(),return_complex=True)
torch.stft(x,16,4,12,window=w[:12],align_to_window=True,center=False,return_complex=True)
x.stft(16,4,window=w,return_complex=True)
torch.stft(x,16)
torch.stft(z,16,4,window=w,onesided=True,return_complex=True)
torch.stft(x,16,0,return_complex=True)
torch.stft(x,100,return_complex=True)
torch.stft(x,100,center=False,return_complex=True)
torch.stft(x,16,4,20,return_complex=True)
torch.stft(x,16,4,window=w[:5],return_complex=True)
torch.stft(x,0,return_complex=True)
torch.stft(x[None],16,return_complex=True)
torch.stft(i,16,return_complex=True)
torch.stft(x,16,4,window=w,align_to_window=True,return_complex=True)
torch.istft(S,16,4,window=w)
torch.istft(s,16,4,window=w)
torch.istft(S,16,4,12,window=w[:12])
torch.istft(S,16,4,window=w,length=20)
torch.istft(S,16,4,window=w,length=50)
torch.istft(S,16,4,window=w,center=False)
torch.istft(S,16,4)
torch.istft(S,16,4,window=w,normalized=True)
torch.istft(T,16,4,window=w,onesided=False)
torch.istft(T,16,4,window=w,return_complex=True)
torch.istft(torch.stft(x,16,4,window=w,return_complex=True),16,4,window=w)
S.istft(16,4,window=w)
torch.istft(S,16,4,window=w,return_complex=True)
torch.istft(S,12,4,window=w)
torch.istft(torch.view_as_real(S),16,4,window=w)
torch.istft(S,16,0,window=w)
torch.istft(S,16,20,window=w)
torch.istft(S,16,4,window=w[:3])
torch.istft(S,16,4,window=w*0)
torch.istft(v,16)
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

GRADS: dict[str, Values] = {
    "x": values(normal(2, 4, 6)),
    "w": values(normal(6, 4, 3)),
    "g": values(normal(2, 6, 4)),
    "im": values(normal(2, 4, 6, 6)),
    "k": values(normal(6, 2, 3, 3)),
    "gi": values(normal(2, 6, 3, 3)),
    "v": values(normal(1, 2, 3, 4, 3)),
    "kv": values(normal(2, 2, 2, 2, 2)),
    "gv": values(normal(1, 2, 2, 3, 2)),
}

OF_CONVOLUTIONS = """
torch.nn.grad.conv1d_input((2,4,6),w,g)
torch.nn.grad.conv1d_weight(x,(6,4,3),g)
torch.nn.grad.conv2d_input((2,4,6,6),k,gi,stride=2,padding=1,groups=2)
torch.nn.grad.conv2d_weight(im,(6,2,3,3),gi,stride=2,padding=1,groups=2)
torch.nn.grad.conv3d_input((1,2,3,4,3),kv,gv)
torch.nn.grad.conv3d_weight(v,(2,2,2,2,2),gv)
torch.nn.grad.conv1d_input((2,4,6),w,g[:,:,:2])
torch.nn.grad.conv1d_weight(x,(6,4,3),g,padding=1)
torch.nn.grad.conv1d_input((2,4),w,g)
"""

ONCE = """
torch.embedding_bag(e,i,off,False,1,include_last_offset=True)
torch.embedding_bag(e,i,off,False,0,False,s)
torch.embedding_bag(e,i,off,False,1)
torch.embedding_bag(e,i,off)
torch.grid_sampler(im,grid,2,2,True)
torch.embedding_bag(e,i,off,False,2)
"""

table.programs(RUNS, SEGMENTS, second=False)  # torch has no second gradient
table.programs(WINDOWS, {}, tolerance=(1e-5, 1e-6))
table.programs(HALF_WINDOWS, {}, tolerance=(1e-2, 1e-2))  # torch rounds between the steps
table.programs(SHARES, GAMMA)
table.programs(RECURRENT, LAYERS, tolerance=(1e-8, 1e-8))
table.programs(BENEATH, NATIVE, tolerance=(1e-8, 1e-8))
table.programs(ONCE, NATIVE, second=False)
table.programs(OF_CONVOLUTIONS, GRADS)
table.programs(SPECTRA, SIGNALS, tolerance=(1e-8, 1e-8))
table.programs("torch.stft(x.float(),16,window=w.float(),return_complex=True)", SIGNALS, tolerance=(1e-5, 1e-5))
