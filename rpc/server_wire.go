package rpc

// A Wire is a protocol that a port speaks by a package outside of this one, such as dubbo.Wire. Programs give it to those that read the names of
// protocols from a file.
type Wire struct {
	Name string // as files and registries have it

	// Port lets a port speak the protocol, by its Front, Protocols and Offers.
	Port func(o *PortOptions)

	// Service makes a service of the exported methods of impl, whose arguments and results are values of the protocol. The error names the key, or the
	// method that is none.
	Service func(key Key, impl any) (*Service, error)
}
