from types import SimpleNamespace
def analyse(hook, kinds=()):
    return SimpleNamespace(pure=True, effects=(), returns=None, reads=(), touches=())
