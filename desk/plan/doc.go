// Package plan says what a Desk of a size needs: servers, database, bus and shards, by a model that is fitted to measured points.
//
//	m, err := plan.Fit(plan.Points())
//	p, err := m.Plan(plan.Load{Visitors: 100_000, PerSecond: 300, Agents: 500, Sites: 10, Cores: 4})
//
// [Model.Check] says how far the model is from the points.
package plan
