module windlass/containerd

go 1.24
