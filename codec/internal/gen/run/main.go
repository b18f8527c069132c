// Command run writes the generated files of one package into the current folder; its argument names the package.
package main

import (
	"fmt"
	"os"

	"github.com/gantrymq/gantry/codec/internal/gen"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("usage: run code|header")
	}
	var files map[string][]byte
	var err error
	switch args[0] {
	case "code":
		files, err = gen.Codes(".")
	case "header":
		files, err = gen.Headers(".")
	default:
		err = fmt.Errorf("no generated package %q", args[0])
	}
	if err != nil {
		return err
	}
	return gen.Write(".", files)
}
