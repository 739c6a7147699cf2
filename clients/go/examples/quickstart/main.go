// Command quickstart remembers something, appends to a thread, and streams it back.
package main

import (
	"context"
	"fmt"
	"log"

	"statekeep.dev/go/statekeep"
)

func main() {
	ctx := context.Background()
	client, err := statekeep.NewClient("") // STATEKEEP_ADDRESS, or 127.0.0.1:50051
	check(err)
	defer client.Close()

	app := statekeep.Namespace("app")
	_, err = client.Memory.Set(ctx, app, "user/name", statekeep.JSON(`{"first": "Ada"}`), nil)
	check(err)
	name, err := client.Memory.Get(ctx, app, "user/name", nil)
	check(err)
	fmt.Println(name.Value)

	hello := statekeep.NewEvent{Type: "message", Data: statekeep.Text("hello")}
	_, err = client.State.AppendNextEvent(ctx, "chat-go", hello, nil)
	check(err)
	for event, err := range client.State.StreamHistory(ctx, "chat-go", nil).All() {
		check(err)
		fmt.Println(event.Sequence, event.Type, event.Data)
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
