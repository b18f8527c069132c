package scenario

import "github.com/gantrymq/gantry/compat/agent"

// Plays are all plays of all clients.
func Plays() []Play {
	var plays []Play
	// The long ones first, so that they do not stand alone at the end of a run.
	for _, k := range agent.Kinds {
		plays = append(plays, deadLetters(k), retry(k), orderly(k, k), clustering(k, k))
	}
	plays = append(plays,
		orderly(agent.Java5, agent.Go), clustering(agent.Java5, agent.Go),
		orderly(agent.Java4, agent.Java5), clustering(agent.Java4, agent.Java5),
		shortHeartbeats(agent.Java5), globalOrder(agent.Java5),
		timed(agent.Go), timed(agent.Java4), timed(agent.Java5), recalled(agent.Java5))
	for _, k := range agent.Kinds {
		plays = append(plays, resume(k), broadcast(k, k), delayed(k), asked(k))
		if k != agent.Java43 { // it asks for a template topic of a name that no server has had for long
			plays = append(plays, autoTopic(k))
		}
		if k != agent.Go {
			plays = append(plays, queries(k), pulled(k, "classic"))
		}
		if !old(k) {
			plays = append(plays, traced(k), pulled(k, "lite"))
		}
	}
	plays = append(plays, selected(agent.Java4, agent.Java5), selected(agent.Java5, agent.Go), selected(agent.Go, agent.Java4))
	plays = append(plays, transactions(agent.Java4, agent.Java5), transactions(agent.Java5, agent.Go), transactions(agent.Go, agent.Java4))
	for _, pair := range [][2]agent.Kind{{agent.Java4, agent.Java4}, {agent.Java5, agent.Java5}, {agent.Go, agent.Go},
		{agent.Java5, agent.Java4}, {agent.Java4, agent.Go}, {agent.Go, agent.Java5}} {
		plays = append(plays, replies(pair[0], pair[1]))
	}
	for _, producer := range agent.Kinds {
		for _, consumer := range agent.Kinds {
			// The oldest clients meet themselves and the newest.
			if !old(producer) && !old(consumer) || producer == consumer || old(producer) && consumer == agent.Java5 || producer == agent.Java5 {
				plays = append(plays, exchange(producer, consumer))
			}
		}
	}
	return plays
}

// old clients have neither trace nor lite pull consumers.
func old(k agent.Kind) bool { return k == agent.Java32 || k == agent.Java43 }
