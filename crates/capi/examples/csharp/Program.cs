// A game that asks its model for a character, as JSON that always has the form of the class Character.
//
// The model here is a stand-in with random logits over one token for each byte. A real game takes the logits
// from its model, and the vocabulary from a tokenizer.json or from its library: the bytes of each token.
//
//     cargo build --release -p formwork-capi
//     dotnet run --project crates/capi/examples/csharp
//
// With Mono, in this folder:
//
//     mcs -out:Game.exe -r:System.Runtime.Serialization *.cs
//     LD_LIBRARY_PATH=../../../../target/release mono Game.exe

using System;
using System.Collections.Generic;
using System.IO;
using System.Runtime.Serialization;
using System.Runtime.Serialization.Json;
using System.Text;
using Formwork;

[DataContract]
internal sealed class Character
{
    [DataMember(Name = "name")]
    public string Name { get; set; }

    [DataMember(Name = "class")]
    public string Class { get; set; }

    [DataMember(Name = "level")]
    public int Level { get; set; }

    [DataMember(Name = "inventory")]
    public List<string> Inventory { get; set; }
}

/// <summary>A language model: returns a logit for each token that could follow.</summary>
internal interface IModel
{
    float[] Logits(IReadOnlyList<uint> tokens);
}

internal sealed class RandomModel : IModel
{
    private readonly Random random = new Random(5);
    private readonly int count;

    internal RandomModel(int count)
    {
        this.count = count;
    }

    public float[] Logits(IReadOnlyList<uint> tokens)
    {
        var logits = new float[count];
        for (var token = 0; token < count; token++)
        {
            logits[token] = (float)random.NextDouble();
        }
        return logits;
    }
}

internal static class Program
{
    private const int Budget = 160;

    private const string Schema = @"{
        ""type"": ""object"",
        ""properties"": {
            ""name"": { ""type"": ""string"", ""pattern"": ""^[A-Z][a-z]{2,11}$"" },
            ""class"": { ""enum"": [""knight"", ""wizard"", ""thief""] },
            ""level"": { ""type"": ""integer"", ""minimum"": 1, ""maximum"": 20 },
            ""inventory"": {
                ""type"": ""array"", ""minItems"": 1, ""maxItems"": 3, ""uniqueItems"": true,
                ""items"": { ""enum"": [""sword"", ""rope"", ""lamp"", ""map""] }
            }
        },
        ""required"": [""name"", ""class"", ""level"", ""inventory""]
    }";

    private static int Main()
    {
        try
        {
            Grammar.JsonSchema(@"{ ""properties"": { ""level"": { ""minimum"": ""one"" } } }").Dispose();
        }
        catch (FormworkException error)
        {
            Console.WriteLine("refused at " + error.Pointer + ": " + error.Message);
        }

        var tokens = new List<byte[]>();
        for (var value = 0; value < 256; value++)
        {
            tokens.Add(new[] { (byte)value });
        }
        tokens.Add(new byte[0]);
        var end = (uint)256;

        // A game creates the constraint once, and a matcher for each character.
        using (var vocabulary = new Vocabulary(tokens, end))
        using (var grammar = Grammar.JsonSchema(Schema))
        using (var constraint = new Constraint(grammar, vocabulary))
        {
            var json = Generate(constraint, new RandomModel(vocabulary.Count), tokens);
            Console.WriteLine("output: " + json);
            var character = Read(json);
            Console.WriteLine(
                character.Name + " is a " + character.Class + " of level " + character.Level + " with "
                + string.Join(", ", character.Inventory.ToArray()));
            return grammar.Accepts(Encoding.UTF8.GetBytes(json)) ? 0 : 1;
        }
    }

    private static string Generate(Constraint constraint, IModel model, List<byte[]> vocabulary)
    {
        var output = new List<byte>();
        var tokens = new List<uint>();
        using (var matcher = new Matcher(constraint))
        {
            while (!matcher.Complete)
            {
                var logits = model.Logits(tokens);
                matcher.MaskLogits(logits, Budget - tokens.Count);
                var token = ArgMax(logits);
                matcher.Commit(token);
                tokens.Add(token);
                output.AddRange(vocabulary[(int)token]);
            }
        }
        return Encoding.UTF8.GetString(output.ToArray());
    }

    private static uint ArgMax(float[] logits)
    {
        var best = 0;
        for (var token = 1; token < logits.Length; token++)
        {
            if (logits[token] > logits[best])
            {
                best = token;
            }
        }
        return (uint)best;
    }

    private static Character Read(string json)
    {
        using (var stream = new MemoryStream(Encoding.UTF8.GetBytes(json)))
        {
            return (Character)new DataContractJsonSerializer(typeof(Character)).ReadObject(stream);
        }
    }
}
