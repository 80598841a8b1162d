// What the describe programs of the component modules share: reading flag sets,
// turning Go types into schemas, and printing both as data that diffs well.
//
// The pflag version is a lower bound; each component's own module decides.
module windlass/describe

go 1.25.0

require github.com/spf13/pflag v1.0.9
