def trace_plain(T, B, H, K, C):
    Reader(C, H, n_layers=2).scan(torch.randn(T, B, C))


def trace_masked(T, B, H, K, C):
    Reader(C, H, n_layers=2).scan(torch.randn(T, B, C), torch.ones(1, B) > 0)
