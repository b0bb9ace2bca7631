package plan

// Points returns what was measured. The file is written by scripts/points, never by hand: on a quiet machine
//
//	go run ./scripts/points -store postgres://postgres@127.0.0.1/postgres -bus nats://127.0.0.1:4222
//
// measures anew and replaces it.
func Points() Measured {
	return Measured{
		Date: "2026-11-29", Machine: "2 processors, amd64",
		Idle: 5218,
		Points: []Point{
			{Servers: 1, PerSecond: 100, Commits: 1.0155, ServerCPU: 1005, DatabaseCPU: 1070, Grown: 1446, WAL: 3236, Syncs: 0.9790},
			{Servers: 1, PerSecond: 300, Commits: 1.0032, ServerCPU: 698, DatabaseCPU: 823, Grown: 1206, WAL: 3002, Syncs: 0.9690},
			{Servers: 1, PerSecond: 500, Commits: 1.0018, ServerCPU: 498, DatabaseCPU: 580, Grown: 1221, WAL: 2991, Syncs: 1.0045},
			{Servers: 1, PerSecond: 4694, Full: true, Commits: 0.0103, ServerCPU: 109, DatabaseCPU: 161, Grown: 1205, WAL: 2013, Syncs: 0.0104},
			{Servers: 3, PerSecond: 100, Commits: 1.0415, ServerCPU: 1970, DatabaseCPU: 1345, Grown: 1409, WAL: 3219, Syncs: 1.0425, BusMessages: 1.000, BusBytes: 1839},
			{Servers: 3, PerSecond: 300, Commits: 1.0150, ServerCPU: 1287, DatabaseCPU: 917, Grown: 1184, WAL: 3015, Syncs: 1.0013, BusMessages: 1.000, BusBytes: 1843},
			{Servers: 3, PerSecond: 500, Commits: 1.0024, ServerCPU: 1040, DatabaseCPU: 771, Grown: 1237, WAL: 3005, Syncs: 0.9836, BusMessages: 1.000, BusBytes: 1844},
			{Servers: 3, PerSecond: 3283, Full: true, Commits: 0.0302, ServerCPU: 249, DatabaseCPU: 186, Grown: 1238, WAL: 2026, Syncs: 0.0339, BusMessages: 1.000, BusBytes: 1861},
		},
	}
}
