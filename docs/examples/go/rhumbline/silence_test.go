package rhumbline

import (
	"testing"
	"time"
)

// after returns when a proxy that answers nothing is left, if other proxies say what `answer` says.
func after(answer func(s *silence, now time.Time)) time.Duration {
	start := time.Now()
	s := silence{ticked: start, heard: start}
	for now := start; ; now = now.Add(tick) {
		s.onTick(now)
		if s.isOver(now) {
			return now.Sub(start)
		}
		if s.takeQuestion(now) {
			answer(&s, now)
		}
	}
}

func TestSilentProxyIsLeftSoonUnlessOthersFindItAlive(t *testing.T) {
	if left := after(func(*silence, time.Time) {}); left > silenceMax+2*tick {
		t.Errorf("an unknown proxy was left after %v", left)
	}
	alive := func(s *silence, now time.Time) { s.onAnswer(now, true) }
	if left := after(alive); left < confirmedMax || left > confirmedMax+2*tick {
		t.Errorf("a slow proxy was left after %v", left)
	}
}

func TestTimeInWhichTheClientDidNotRunIsNoSilence(t *testing.T) {
	start := time.Now()
	s := silence{ticked: start, heard: start}
	woken := start.Add(5 * time.Second)
	s.onTick(woken)
	if s.isOver(woken) || s.takePing(woken) {
		t.Error("the proxy was blamed for a pause of the client")
	}
}
