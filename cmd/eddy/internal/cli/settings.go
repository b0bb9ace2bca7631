package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// Settings lets the flags of a command and of its subcommands be given in a file and in the environment, too. A flag on
// the command line wins over the environment, and the environment over the file.
type Settings struct {
	owner  *cobra.Command // whose flags may be named
	prefix string         // of the environment's variables
	file   string
}

const (
	configFlag    = "config"
	maxConfigFile = 1 << 20
)

// Register adds the flag that names the file. Call it when the owner has its flags.
func (s *Settings) Register(owner *cobra.Command, prefix string) {
	s.owner, s.prefix = owner, prefix
	owner.PersistentFlags().StringVar(&s.file, configFlag, "", "YAML file with flags of this command, one \"name: value\" a line; "+
		"or in the environment, such as "+s.variable("max-conns"))
}

func (s *Settings) variable(flag string) string {
	return s.prefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// known returns a flag that may be named.
func (s *Settings) known(name string) *pflag.Flag {
	if f := s.owner.Flags().Lookup(name); f != nil {
		return f
	}
	return s.owner.PersistentFlags().Lookup(name)
}

func (s *Settings) names() []string {
	var names []string
	add := func(f *pflag.Flag) {
		if f.Name != "help" {
			names = append(names, f.Name)
		}
	}
	s.owner.LocalFlags().VisitAll(add)
	return names
}

// Apply sets those flags of cmd that the command line did not.
func (s *Settings) Apply(cmd *cobra.Command) error {
	fromCommandLine := make(map[string]bool)
	cmd.Flags().Visit(func(f *pflag.Flag) { fromCommandLine[f.Name] = true })
	set := func(name, value, source string) error {
		f := s.known(name)
		if fromCommandLine[name] {
			return nil
		}
		if err := f.Value.Set(value); err != nil {
			return fmt.Errorf("%s: %s %q is not a valid %s: %s", source, name, value, Kind(f), f.Usage)
		}
		return nil
	}
	environment, err := s.environment()
	if err != nil {
		return err
	}
	if v, ok := environment[configFlag]; ok && !fromCommandLine[configFlag] {
		s.file = v
	}
	if s.file != "" {
		if err := s.readFile(set); err != nil {
			return err
		}
	}
	for name, value := range environment {
		if err := set(name, value, s.variable(name)); err != nil {
			return err
		}
	}
	return nil
}

// environment returns what the environment's variables say, by the names of the flags.
func (s *Settings) environment() (map[string]string, error) {
	found := make(map[string]string)
	for _, entry := range os.Environ() {
		name, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, s.prefix) {
			continue
		}
		flag := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, s.prefix), "_", "-"))
		if s.known(flag) == nil {
			var names []string
			for _, n := range s.names() {
				names = append(names, s.variable(n))
			}
			return nil, fmt.Errorf("environment variable %s is no setting of %q%s; see \"%s --help\"", name, s.owner.CommandPath(), Meant(name, names), s.owner.CommandPath())
		}
		found[flag] = value
	}
	return found, nil
}

// readFile calls set for each line of the file.
func (s *Settings) readFile(set func(name, value, source string) error) error {
	data, err := readAtMost(s.file, maxConfigFile)
	if err != nil {
		return err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return fmt.Errorf("%s: %w", s.file, err)
	}
	if len(doc.Content) == 0 {
		return nil
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return fmt.Errorf("%s:%d: write one \"name: value\" a line", s.file, root.Line)
	}
	seen := make(map[string]int)
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		source := fmt.Sprintf("%s:%d", s.file, key.Line)
		switch {
		case key.Value == configFlag || s.known(key.Value) == nil:
			return fmt.Errorf("%s: %.60q is no setting of %q%s; see \"%s --help\"", source, key.Value, s.owner.CommandPath(), Meant(key.Value, s.names()), s.owner.CommandPath())
		case seen[key.Value] > 0:
			return fmt.Errorf("%s: %s is set a second time; the first is in line %d", source, key.Value, seen[key.Value])
		case value.Kind != yaml.ScalarNode:
			return fmt.Errorf("%s: %s takes one value", source, key.Value)
		}
		seen[key.Value] = key.Line
		if err := set(key.Value, value.Value, source); err != nil {
			return err
		}
	}
	return nil
}
