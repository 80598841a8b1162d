// A stand-in for every program that nothing in the fetch flow has to start.
package main

func main() { println("Kubernetes v1.36.3") }
