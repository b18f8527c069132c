package compat

import (
	"fmt"
	"strings"

	"github.com/gantrymq/gantry/compat/refusals"
)

// CodeTable renders what the servers do with each code that one of Java's serves.
func CodeTable(codes []refusals.RequestCode, javaBroker, gantryBroker, javaNamesrv, gantryNamesrv map[int]refusals.Answer) string {
	var rows strings.Builder
	count := func(theirs, ours map[int]refusals.Answer) string {
		both, all := 0, 0
		for code, s := range theirs {
			if s.How == refusals.No {
				continue
			}
			all++
			if ours[code].How == refusals.Yes {
				both++
			}
		}
		return fmt.Sprintf("%d of %d", both, all)
	}
	for _, c := range codes {
		if javaBroker[c.Code].How == refusals.No && javaNamesrv[c.Code].How == refusals.No {
			continue
		}
		fmt.Fprintf(&rows, "| %d | %s | %s | %s | %s | %s |\n", c.Code, c.Name,
			javaBroker[c.Code].How, gantryBroker[c.Code].How, javaNamesrv[c.Code].How, gantryNamesrv[c.Code].How)
	}
	return fmt.Sprintf(`Each code of Java's list, sent once without fields and body to running servers: "yes" means that somebody handles it (what
exactly comes back is compared by the data of compat/refusals and by the rows above), "no" that the answer is code 3.
Codes that neither of Java's servers handles are left out. Of the codes that Java's server handles, Gantry's broker
handles %s, its name server %s.

| code | name | Java broker | Gantry broker | Java name server | Gantry name server |
|---|---|---|---|---|---|
%s`, count(javaBroker, gantryBroker), count(javaNamesrv, gantryNamesrv), rows.String())
}
