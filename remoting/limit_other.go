//go:build !unix

package remoting

func defaultMaxConns() int { return 1 << 16 }
