//! A service of one's own in thirty lines: it counts words. `group FILE` makes a group's key, `serve FILE ADDRESS`
//! serves, and `ask FILE TEXT ADDRESS…` asks all these services at once.

use std::{error::Error, path::Path, time::Duration};

use gmp::{Group, HostAddress, Instance};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["group", file] => Group::create("word counters")?.save(Path::new(file))?,
        ["serve", file, address] => {
            let (instance, mut inbox) = Instance::bind(&Group::load(Path::new(file))?, address.parse()?).await?;
            println!("serving at {}", instance.address());
            while let Some(message) = inbox.next().await {
                let count = String::from_utf8_lossy(message.body()).split_whitespace().count();
                message.reply(count.to_string().into_bytes())?;
            }
        }
        ["ask", file, text, ref services @ ..] => {
            let (instance, _inbox) = Instance::bind(&Group::load(Path::new(file))?, ([0, 0, 0, 0], 0).into()).await?;
            let services = services.iter().map(|service| service.parse()).collect::<Result<Vec<HostAddress>, _>>()?;
            for (service, reply) in instance.request_each(&services, text.into(), Duration::from_secs(5)).await {
                println!(
                    "{service}: {}",
                    reply.map_or_else(|error| error.to_string(), |count| String::from_utf8_lossy(&count).into_owned())
                );
            }
        }
        _ => return Err("give `group FILE`, `serve FILE ADDRESS` or `ask FILE TEXT ADDRESS…`".into()),
    }
    Ok(())
}
