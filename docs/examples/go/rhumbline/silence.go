package rhumbline

import "time"

const (
	tick         = 50 * time.Millisecond
	pingAfter    = 125 * time.Millisecond
	questionMin  = 250 * time.Millisecond // silence until another proxy is asked, and the interval of questions
	questionMax  = 500 * time.Millisecond // interval while the proxy was found alive
	silenceMax   = 1500 * time.Millisecond
	confirmedMax = 10 * time.Second
)

// silence decides for how long a proxy that sends nothing keeps its append call. A lost proxy is left
// soon. One that others find alive is only slow: to leave it would add to its load.
type silence struct {
	ticked    time.Time
	heard     time.Time // of the last message, or since which results are due
	confirmed time.Time // when another proxy found it alive
	asked     time.Time
	pinged    time.Time
	interval  time.Duration
}

// onTick notes the time. While this process did not run, it read no message.
func (s *silence) onTick(now time.Time) {
	if late := now.Sub(s.ticked) - tick; late > tick {
		s.heard = earlier(s.heard.Add(late), now)
		s.confirmed = earlier(s.confirmed.Add(late), now)
	}
	s.ticked = now
}

// onAnswer notes what another proxy says.
func (s *silence) onAnswer(now time.Time, isAlive bool) {
	s.interval = questionMin
	if isAlive {
		s.confirmed, s.interval = now, questionMax
	}
}

// takePing says whether the proxy is to be sent an empty message now, and begins the next interval.
func (s *silence) takePing(now time.Time) bool {
	if now.Sub(later(s.heard, s.pinged)) <= pingAfter {
		return false
	}
	s.pinged = now
	return true
}

// takeQuestion says whether another proxy is to be asked now, and begins the next interval.
func (s *silence) takeQuestion(now time.Time) bool {
	if !s.asked.After(s.heard) {
		s.interval = questionMin
	}
	if now.Sub(later(s.heard, s.asked)) <= s.interval {
		return false
	}
	s.asked = now
	return true
}

// isOver says whether to go to another proxy.
func (s *silence) isOver(now time.Time) bool {
	return now.Sub(later(s.heard, s.confirmed)) > silenceMax || now.Sub(s.heard) > confirmedMax
}

func earlier(one, other time.Time) time.Time {
	if one.Before(other) {
		return one
	}
	return other
}

func later(one, other time.Time) time.Time {
	if one.After(other) {
		return one
	}
	return other
}
