// The program porcupine reads histories of streams, one JSON object in each line, and writes for
// each of them whether it is linearizable.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	lineBytesMax = 1 << 28
	secondsMax   = 120
)

// History of one stream.
type History struct {
	Name       string      `json:"name"`
	Operations []Operation `json:"operations"`
}

// Verdict on a history: "Ok", "Illegal", or "Unknown" if the time did not suffice.
type Verdict struct {
	Name       string  `json:"name"`
	Verdict    string  `json:"verdict"`
	Operations int     `json:"operations"`
	Seconds    float64 `json:"seconds"`
	// First operation that is in no longest linearizable part, if the history is illegal.
	First string `json:"first"`
}

func judge(history History) Verdict {
	begun := time.Now()
	operations := make([]porcupine.Operation, len(history.Operations))
	for number, found := range history.Operations {
		operations[number] = porcupine.Operation{
			ClientId: found.Client, Input: found, Call: found.Called, Return: found.Returned,
		}
	}
	limit := secondsMax * time.Second
	verdict := Verdict{Name: history.Name, Operations: len(operations)}
	result := porcupine.CheckOperationsTimeout(log, operations, limit)
	if result == porcupine.Illegal {
		_, info := porcupine.CheckOperationsVerbose(log, operations, limit)
		verdict.First = firstLeftOut(history.Operations, info)
	}
	verdict.Verdict = string(result)
	verdict.Seconds = time.Since(begun).Seconds()
	return verdict
}

// firstLeftOut returns the operation that returned first among those that the longest partial
// linearization leaves out.
func firstLeftOut(operations []Operation, info porcupine.LinearizationInfo) string {
	var longest []int
	for _, partition := range info.PartialLinearizations() {
		for _, partial := range partition {
			if len(partial) > len(longest) {
				longest = partial
			}
		}
	}
	isIn := map[int]bool{}
	for _, number := range longest {
		isIn[number] = true
	}
	first := -1
	for number := range operations {
		if !isIn[number] && (first < 0 || operations[number].Returned < operations[first].Returned) {
			first = number
		}
	}
	if first < 0 {
		return ""
	}
	return operations[first].String()
}

func run() error {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 1<<20), lineBytesMax)
	results := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var history History
		if err := json.Unmarshal(lines.Bytes(), &history); err != nil {
			return err
		}
		if err := results.Encode(judge(history)); err != nil {
			return err
		}
	}
	return lines.Err()
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
