"""Products, factors and decompositions of matrices, in their rarer forms.

One program per line over the inputs below: both libraries must give the same values, graph and gradients, or refuse it
in the same words.
"""

from __future__ import annotations

import re
from math import nan

import numpy as np

from tests.oracle.sampling import Table, Values, values

table = Table("matrices")

random = np.random.default_rng(5)


def normal(*shape: int) -> np.ndarray:
    return random.standard_normal(shape)


def solid(*shape: int) -> np.ndarray:
    """Square matrices far from singular."""
    return normal(*shape) + 3 * np.eye(shape[-1])


def positive_definite(x: np.ndarray) -> np.ndarray:
    return x @ x.conj().T + 2 * np.eye(len(x))


COMPLEX = "complex128"
positive = positive_definite(normal(3, 3))
INPUTS: dict[str, Values] = {
    "a": values(normal(2, 4)),
    "m": values(solid(3, 3)),
    "i": values([3, 1, 3, 2, 1], "int64"),
    "z": values(2.0),
    "c": values(solid(3, 3) + 1j * normal(3, 3), COMPLEX),
    "b": values([True, False, True], "bool"),
    "e": values(np.ones((0, 3))),
    "v": values(normal(3)),
    "w": values(normal(4)),
    "h": values(normal(3, 3), "float16", grad=False),
    "d": values(normal(3, 3), "float32"),
    "B": values(normal(2, 3, 4)),
    "C": values(normal(2, 4, 3)),
    "im": values(np.eye(3), "int64"),
    "spd": values(positive),
    "sing": values(np.ones((2, 2)), grad=False),
    "bs": values(np.stack([np.eye(2), np.ones((2, 2))]), grad=False),
    "nn": values(np.full((2, 2), nan), grad=False),
    "S": values(np.stack([positive, positive * 2])),
    "M": values(solid(2, 3, 3)),
    "T": values(normal(4, 3)),
    "q": values(normal(2, 3, 6)),
    "cs": values(normal(2, 3) + 1j * normal(2, 3), COMPLEX),
    "p6": values(solid(6, 6)),
    "cv": values(normal(3) + 1j * normal(3), COMPLEX),
    "hc": values(positive_definite(normal(3, 3) + 1j * normal(3, 3)), COMPLEX),
}

PROGRAMS = """
torch.mm(a,a)
torch.mm(i,i)
torch.mm(m,c)
torch.mm(c,c)
torch.bmm(B,B)
torch.bmm(B,C)
torch.bmm(a,B)
torch.bmm(B,a)
torch.mv(B,v)
torch.mv(a,w.float())
torch.mv(c,cv)
torch.dot(a,v)
torch.dot(v,z)
torch.dot(cv,cv)
torch.vdot(cv,cv*2)
torch.vdot(v,a)
torch.inner(a,v)
torch.inner(a,z)
torch.inner(a,a)
torch.inner(B,a)
torch.inner(a,a.float())
torch.matmul(a,w)
torch.matmul(B,a)
torch.matmul(B,w)
torch.matmul(B,C)
torch.matmul(z,z)
torch.matmul(v,a)
torch.matmul(c,cv)
torch.matmul(B,C.mT.contiguous().mT)
B[None]@C[:,None]
B.transpose(0,1)@C.mT.reshape(3,4,2)
a@C
w@C
C.transpose(1,2)@w
B.permute(1,0,2)@T
T.t()@C.detach()
w.detach()@C
torch.addmm(a,a,a)
torch.addmm(B,m,m)
torch.addmm(m,m,v)
torch.addmm(m,B,m)
torch.addmm(m,d,d)
torch.addmm(m,d,m)
torch.addmm(v,m,m,beta=.5,alpha=2)
torch.addmm(im,im,im)
torch.addmm(im,im,im,alpha=0.5)
torch.addmm(m,m,m,beta='x')
torch.addmm(c,c,c,beta=2,alpha=.5)
torch.addmv(v,m,v)
torch.addmv(v,m,v,beta=.5,alpha=2)
torch.addmv(v,m,a)
torch.addmv(w,m,v)
torch.addmv(v,m,w)
torch.addmv(m,m,v)
torch.addr(m,v,v,alpha=2)
torch.addr(v,v,v,beta=3)
torch.addr(m,v,a)
torch.addr(im,im[0],im[0],beta=.5)
torch.addr(a,v,v)
torch.baddbmm(B,B,C)
torch.baddbmm(m,B,C,beta=2,alpha=.5)
torch.addbmm(m,B,C)
torch.addbmm(m,B,C,beta=.5,alpha=2)
torch.addbmm(m,B,B)
torch.addbmm(m,B,C[:1])
torch.tensordot(a,a,dims=5)
torch.tensordot(a,a,dims=-1)
torch.tensordot(a,a,dims=([0],[1]))
torch.tensordot(a,a,dims=([5],[1]))
torch.tensordot(a,a,dims=([0,0],[0,0]))
torch.tensordot(B,C,dims=([0,2],[0,1]))
torch.tensordot(B,C,dims=([2,0],[1,0]))
torch.kron(v,a)
torch.kron(a,T)
torch.kron(z,a)
torch.trace(B)
torch.trace(im)
torch.trace(T)
torch.cross(v,v*v,dim=0)
torch.cross(m,m*m,dim=1)
torch.cross(a,a)
torch.cross(m,v[None],dim=-1)
torch.linalg.cross(a,a)
torch.linalg.cross(v,a)
torch.linalg.cross(c,c*c)
torch.linalg.cross(T,v[None])
torch.linalg.multi_dot([m])
torch.linalg.multi_dot([m,B])
torch.linalg.multi_dot([v,m,v])
torch.linalg.multi_dot([a,T,m])
torch.linalg.multi_dot([T,m,m,v])
torch.linalg.multi_dot([m,v,m])
torch.linalg.multi_dot([a,a])
torch.chain_matmul(m,m)
torch.linalg.matrix_power(m,2.)
torch.linalg.matrix_power(a,2)
torch.linalg.matrix_power(v,2)
torch.linalg.matrix_power(sing,-1)
torch.linalg.matrix_power(m,0)
torch.linalg.matrix_power(m,1)
torch.linalg.matrix_power(m,5)
torch.linalg.matrix_power(m,-2)
torch.linalg.matrix_power(M,3)
torch.matrix_power(m,2)
torch.linalg.matrix_exp(m)
torch.linalg.matrix_exp(M)
torch.linalg.matrix_exp(c)
torch.linalg.matrix_exp(a)
torch.linalg.matrix_exp(im)
torch.det(nn)
torch.linalg.det(c)
torch.linalg.det(M)
torch.linalg.slogdet(c)
torch.linalg.slogdet(M)
torch.slogdet(m)
torch.logdet(m)
torch.logdet(M)
torch.logdet(-m)
torch.linalg.inv(bs)
torch.linalg.inv(nn)
torch.linalg.inv(M)
torch.linalg.inv(c)
torch.linalg.inv_ex(m)
torch.linalg.inv_ex(sing,check_errors=True)
torch.inverse(h)
torch.linalg.solve(bs,torch.ones(2,2).double())
torch.linalg.solve(m,v)
torch.linalg.solve(M,a[:,:3])
torch.linalg.solve(M,T[:3])
torch.linalg.solve(M,v)
torch.linalg.solve(c,cv)
torch.linalg.solve(m,m,left=False)
torch.linalg.solve(M,m,left=False)
torch.linalg.solve(m,T[:3],left=False)
torch.linalg.solve_ex(m,v)
torch.linalg.solve(v,v)
torch.linalg.solve(m,z)
torch.linalg.cholesky(spd,upper=True)
torch.linalg.cholesky(spd)
torch.linalg.cholesky(S)
torch.linalg.cholesky(hc)
torch.linalg.cholesky(hc,upper=True)
torch.linalg.cholesky(-bs)
torch.linalg.cholesky(nn)
torch.linalg.cholesky_ex(spd)
torch.cholesky(spd)
torch.cholesky(im)
torch.cholesky(h)
torch.cholesky_solve(T[:3],spd)
torch.cholesky_solve(T[:3],spd,upper=True)
torch.cholesky_solve(torch.ones(2,2),m)
torch.cholesky_solve(v,m)
torch.cholesky_inverse(spd)
torch.cholesky_inverse(spd,upper=True)
torch.triangular_solve(T[:3],m)
torch.triangular_solve(T[:3],m,upper=False,transpose=True,unitriangular=True)
torch.triangular_solve(T[:3],m,transpose=True)
torch.triangular_solve(T[:3],m,upper=False)
torch.linalg.solve_triangular(m,T[:3],upper=True,left=True,unitriangular=True)
torch.linalg.solve_triangular(m,T,upper=True,left=False)
torch.linalg.solve_triangular(m,T,upper=False,left=False,unitriangular=True)
torch.linalg.solve_triangular(M,T[:3],upper=False)
torch.linalg.solve_triangular(c,c*c,upper=False)
torch.linalg.solve_triangular(m,a,upper=True)
torch.linalg.solve_triangular(m,T)
torch.linalg.solve_triangular(torch.zeros(2,2),torch.ones(2,1),upper=True)
torch.linalg.qr(T)
torch.linalg.qr(a)
torch.linalg.qr(m,'complete')
torch.linalg.qr(a.detach(),mode='r')
torch.linalg.qr(B)
torch.linalg.qr(c)
torch.linalg.svd(nn)
torch.linalg.svdvals(v)
torch.linalg.svdvals(m)
torch.linalg.svdvals(c)
torch.linalg.svd(m,driver='gesvd')
torch.svd(a,compute_uv=False)
(lambda u,s,v: (s,(u*s)@v))(*torch.linalg.svd(c,full_matrices=False))
(lambda u,s,v: (s,(u*s**2)@v, u[:,:1]@u[:,:1].mH))(*torch.linalg.svd(c,full_matrices=False))
(lambda u,s,v: (s,(u*s**2)@v, u[:,:1]@u[:,:1].mH))(*torch.linalg.svd(cs,full_matrices=False))
(lambda u,s,v: (s,(u*s**2)@v, u[:,:1]@u[:,:1].mH))(*torch.linalg.svd(T,full_matrices=False))
(lambda u,s,v: (s, u[:,:1]@u[:,:1].mH, v[:1].mH@v[:1]))(*torch.linalg.svd(T))
(lambda w,v: (w, v[:,:1]@v[:,:1].mH))(*torch.linalg.eigh(hc))
(lambda w,v: (w, v[:,:1]@v[:,:1].mH))(*torch.linalg.eigh(S))
torch.linalg.eigvalsh(a)
torch.linalg.eigvalsh(v)
torch.linalg.eigvalsh(spd,UPLO='U')
torch.linalg.eig(a)
torch.linalg.eig(nn)
torch.linalg.eigvals(spd)
torch.linalg.eigvals(c)
torch.linalg.eigvals(im)
(lambda w,v: ((v*w**2)@torch.linalg.inv(v),))(*torch.linalg.eig(c))
(lambda w,v: (v.abs(),))(*torch.linalg.eig(c))
(lambda w,v: ((v*w**2)@torch.linalg.inv(v)).real)(*torch.linalg.eig(m))
torch.linalg.pinv(a)
torch.linalg.pinv(T)
torch.linalg.pinv(B)
torch.linalg.pinv(c)
torch.linalg.pinv(cs)
torch.linalg.pinv(v)
torch.linalg.pinv(spd,hermitian=True)
torch.linalg.pinv(m,rcond=.1)
torch.linalg.pinv(m,atol=.1,rtol=.1)
torch.pinverse(a)
torch.linalg.lstsq(T,w[:,None])
torch.linalg.lstsq(T,T*2)
torch.linalg.lstsq(a,a*2)
torch.linalg.lstsq(m,v[:,None])
torch.linalg.lstsq(m,v)
torch.linalg.lstsq(T.detach(),T.detach()*2,driver='gelsd')
torch.linalg.lstsq(m,a)
torch.linalg.lstsq(m,v[:,None],driver='x')
torch.linalg.matrix_rank(sing)
torch.linalg.matrix_rank(sing,tol=5.)
torch.linalg.matrix_rank(sing,hermitian=True)
torch.linalg.matrix_rank(M)
torch.linalg.matrix_rank(v)
torch.linalg.cond(m)
torch.linalg.cond(M)
torch.linalg.cond(m,-2)
torch.linalg.cond(sing,1)
torch.linalg.cond(m,'nuc')
torch.linalg.cond(m,3)
torch.linalg.cond(a)
torch.linalg.cond(a,1)
torch.linalg.cond(v)
torch.linalg.tensorinv(a)
torch.linalg.tensorinv(m,0)
torch.linalg.tensorsolve(p6.reshape(2,3,6),q[0,:2,:3])
torch.linalg.tensorsolve(p6.reshape(6,2,3),q[0,:2,:3],dims=(0,))
torch.linalg.vander(v,N=4)
torch.linalg.vander(v)
torch.linalg.vander(z)
torch.linalg.vander(v,N=1)
torch.vander(torch.tensor([1,2,3]))
torch.vander(torch.tensor([1,2,3]),increasing=True,N=2)
torch.vander(m)
torch.linalg.diagonal(a)
torch.linalg.vecdot(c,c*2)
torch.linalg.vecdot(a,a*2)
torch.linalg.vecdot(v,v*2)
torch.linalg.lu(m)
torch.linalg.lu(M)
torch.linalg.lu(T.detach())
torch.linalg.lu(a.detach())
torch.linalg.lu(c)
torch.linalg.lu(m,pivot=False)
torch.linalg.lu_factor(sing)
torch.linalg.lu_factor(m)
torch.linalg.lu_factor(M)
torch.linalg.lu_factor_ex(m)
torch.linalg.norm(c,'nuc')
torch.linalg.norm(c,2)
torch.linalg.norm(c,1)
torch.einsum('ij,jk->ik',m,T.t())
torch.einsum('bij,bjk->bik',B,C)
torch.einsum('...ij,...jk->...ik',B,T)
torch.einsum('ijk,ijk->i',B,B*2)
torch.einsum('ij,ij->',a,a*2)
torch.einsum('i,j,k->ijk',v,w,v)
torch.einsum('ii->i',m)
torch.einsum('ii,ij->j',m,m)
torch.einsum('iij->j',torch.stack([m,m,m]))
torch.einsum('ij,kj->ik',c,cs)
torch.einsum('ij,jk,kl,lm->im',a,T,m,m)
torch.einsum('ij,kl->ijkl',a,m)
torch.einsum('ij,kl->',a,m)
torch.einsum('ij->...',a)
torch.einsum('...->',a)
torch.einsum('i...->...',a)
torch.einsum('ij,i->ij',a,a[:,0])
torch.einsum('ab,ab->a',a,a)
torch.einsum('ij,jk->',m,m)
torch.einsum('ij,jk->i',m,m)
torch.einsum(m,[0,1],v,[1],[0])
torch.einsum(m,[0,1],v,[1])
torch.einsum(m,[Ellipsis,1],v,[1],[Ellipsis])
torch.einsum('ij,j',m,v)
torch.einsum('ba',m)
torch.einsum('ij,jk->ki',m,m)
torch.einsum('ij,jk->ik',m,v)
torch.einsum('i.j->ij',m)
torch.einsum('i..j->ij',m)
torch.einsum('ii->i',a)
torch.einsum('ij,jk->ik',a,T,m)
torch.einsum('...ij...->ij',m)
torch.einsum('ij...,j->i...',m,v)
torch.einsum('ij,j->i',m,v.float())
torch.einsum('ij,j->i',m,2)
torch.einsum('ij,jk->ik',(m,m))
torch.einsum('a,a->a',v,v)
torch.einsum('a,b->ba',v,w)
"""


def used(program: str) -> dict[str, Values]:
    """The inputs that a program names."""
    words = set(re.findall(r"(?<![\w.'])[A-Za-z]\w*(?![\w'=])", program))
    return {name: value for name, value in INPUTS.items() if name in words}


for number, program in enumerate(PROGRAMS.strip().splitlines()):
    function = re.sub(r"^torch\.|\(.*", "", program) or "expression"
    table.expression(function, str(number), program, raises=None, tolerance=(1e-6, 1e-6), **used(program))
