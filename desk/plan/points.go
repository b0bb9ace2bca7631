package plan

// Points returns what was measured. The file is written by scripts/points, never by hand: on a quiet machine
//
//	go run ./scripts/points -store postgres://postgres@127.0.0.1/postgres -bus nats://127.0.0.1:4222
//
// measures anew and replaces it.
func Points() Measured {
	return Measured{
		Date: "2026-11-29", Machine: "2 processors, amd64, with much other work on both",
		Idle: 3891,
		Points: []Point{
			{Servers: 1, PerSecond: 100, Commits: 0.9060, ServerCPU: 1500, DatabaseCPU: 1860, Grown: 1376, WAL: 3161, Syncs: 0.8700},
			{Servers: 1, PerSecond: 300, Commits: 0.6227, ServerCPU: 917, DatabaseCPU: 1003, Grown: 1286, WAL: 2955, Syncs: 0.5937},
			{Servers: 1, PerSecond: 500, Commits: 0.3282, ServerCPU: 582, DatabaseCPU: 618, Grown: 1240, WAL: 2917, Syncs: 0.3084},
			{Servers: 1, PerSecond: 1020, Full: true, Commits: 0.0101, ServerCPU: 296, DatabaseCPU: 328, Grown: 1268, WAL: 2080, Syncs: 0.0276},
			{Servers: 3, PerSecond: 100, Commits: 0.9900, ServerCPU: 2340, DatabaseCPU: 1780, Grown: 1393, WAL: 3173, Syncs: 0.9200, BusMessages: 1.000, BusBytes: 1835},
			{Servers: 3, PerSecond: 300, Commits: 0.4810, ServerCPU: 1383, DatabaseCPU: 1390, Grown: 1313, WAL: 2815, Syncs: 0.4633, BusMessages: 1.000, BusBytes: 1841},
			{Servers: 3, PerSecond: 500, Commits: 0.1052, ServerCPU: 844, DatabaseCPU: 678, Grown: 1219, WAL: 2718, Syncs: 0.1070, BusMessages: 1.000, BusBytes: 1843},
			{Servers: 3, PerSecond: 681, Full: true, Commits: 0.0304, ServerCPU: 480, DatabaseCPU: 430, Grown: 1207, WAL: 2030, Syncs: 0.0353, BusMessages: 1.000, BusBytes: 1857},
		},
	}
}
