// Package geotest makes small databases of places for tests.
package geotest

import (
	"bytes"
	"net"

	"github.com/maxmind/mmdbwriter"
	"github.com/maxmind/mmdbwriter/mmdbtype"
)

// Place is what a database says of a network; "" is not said.
type Place struct{ Country, City string }

// Database returns a database in the MaxMind format with these places by network, such as 81.2.69.0/24.
func Database(kind string, places map[string]Place) ([]byte, error) {
	tree, err := mmdbwriter.New(mmdbwriter.Options{
		DatabaseType: kind, RecordSize: 24, IncludeReservedNetworks: true, Description: map[string]string{"en": "made by a test"},
	})
	if err != nil {
		return nil, err
	}
	for network, p := range places {
		_, ip, err := net.ParseCIDR(network)
		if err != nil {
			return nil, err
		}
		record := mmdbtype.Map{}
		if p.Country != "" {
			record["country"] = mmdbtype.Map{"iso_code": mmdbtype.String(p.Country)}
		}
		if p.City != "" {
			record["city"] = mmdbtype.Map{"names": mmdbtype.Map{"en": mmdbtype.String(p.City)}}
		}
		if err := tree.Insert(ip, record); err != nil {
			return nil, err
		}
	}
	var b bytes.Buffer
	_, err = tree.WriteTo(&b)
	return b.Bytes(), err
}
