import torch
from torch import nn

torch.manual_seed(0)
student, teacher = nn.Linear(3, 2), nn.Linear(3, 2)
opt = torch.optim.SGD(student.parameters(), lr=0.1)
for _ in range(2):
    x = torch.randn(4, 3)
    y = torch.randint(0, 2, (4,))
    teacher_loss = nn.functional.cross_entropy(teacher(x), y)
    student_loss = nn.functional.cross_entropy(student(x), y)
    opt.zero_grad()
    teacher_loss.backward()
    opt.step()
    teacher.zero_grad()
