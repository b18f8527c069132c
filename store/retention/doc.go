// Package retention decides what a broker deletes and when it takes no more
// messages, by Java's rules. It is logic only: it knows no files and starts
// nothing. Package store asks it, and does it.
//
// # Deleting
//
// Every cleanResourceInterval there is a round. It deletes files of the commit
// log if one of these holds:
//
//   - the hour of the day is one of deleteWhen, in local time;
//   - a file system is fuller than diskMaxUsedSpaceRatio;
//   - an administrator has asked for it (request 329), for 20 rounds.
//
// The files are taken from the oldest on, up to the first one that is younger
// than fileReservedTime by its modification time, and never the last one. Where
// a file system is fuller than diskSpaceCleanForciblyRatio, and unless
// cleanFileForciblyEnable is off, the age does not count.
//
// # Refusing
//
// Above diskSpaceWarningLevelRatio no message is taken, until the use is down
// at diskSpaceCleanForciblyRatio: then what was deleted has helped. Reading
// goes on.
//
//	0 %         75 %          85 %          90 %      100 %
//	 |  by hour  |  expired    |  the oldest |  refuse  |
package retention
