module windlass/kubernetes

go 1.24
