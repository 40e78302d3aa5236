//! Signs with private keys, by which clients of token endpoints authenticate.

use aws_lc_rs::{
    rand::SystemRandom,
    rsa,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, RSA_PKCS1_SHA256},
};
use gridpost_core::{
    pem::{self, Form, PrivateKey},
    secret::Secret,
    subscription::authentication::assertion::{self, Algorithm},
};
use gridpost_ports::authentication::Signer;

/// Signs with RSA keys of 2048 bits and more, and with keys of the curve P-256.
#[derive(Clone, Copy, Debug, Default)]
pub struct PrivateKeys;

const UNSUITED: &str =
    "is neither an RSA key of 2048 bits or more nor a key of the curve P-256, or is damaged";

enum Key {
    Rsa(rsa::KeyPair),
    P256(EcdsaKeyPair),
}

impl Key {
    fn read(PrivateKey { form, bytes }: &PrivateKey) -> Option<Self> {
        let of_curve = &ECDSA_P256_SHA256_FIXED_SIGNING;
        match form {
            Form::Pkcs1 => rsa::KeyPair::from_der(bytes).ok().map(Self::Rsa),
            Form::Sec1 => EcdsaKeyPair::from_private_key_der(of_curve, bytes).ok().map(Self::P256),
            Form::Pkcs8 => {
                let rsa = rsa::KeyPair::from_pkcs8(bytes).ok().map(Self::Rsa);
                rsa.or_else(|| EcdsaKeyPair::from_pkcs8(of_curve, bytes).ok().map(Self::P256))
            }
        }
    }

    fn algorithm(&self) -> Algorithm {
        match self {
            Self::Rsa(_) => Algorithm::Rs256,
            Self::P256(_) => Algorithm::Es256,
        }
    }

    fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
        let random = SystemRandom::new();
        match self {
            Self::Rsa(key) => {
                let mut signature = vec![0; key.public_modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).ok()?;
                Some(signature)
            }
            Self::P256(key) => Some(key.sign(&random, message).ok()?.as_ref().to_vec()),
        }
    }
}

impl Signer for PrivateKeys {
    fn sign(&self, key: &Secret, unsigned: &dyn Fn(Algorithm) -> String) -> Result<Secret, String> {
        let read = pem::private_key(key.expose()).map_err(|problem| problem.to_string())?;
        let key = Key::read(&read).ok_or(UNSUITED)?;
        let unsigned = unsigned(key.algorithm());
        let signature = key.sign(unsigned.as_bytes()).ok_or("can't sign")?;
        Ok(assertion::signed(&unsigned, &signature))
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::{
        encoding::AsDer,
        rsa::KeySize,
        signature::{
            ECDSA_P256_SHA256_FIXED, KeyPair as _, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey,
        },
    };
    use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
    use rcgen::{KeyPair, PKCS_ECDSA_P384_SHA384};

    use super::*;

    fn parts(signed: &Secret) -> (String, Vec<u8>) {
        let (unsigned, signature) = signed.expose().rsplit_once('.').expect("three parts");
        (unsigned.to_owned(), URL_SAFE_NO_PAD.decode(signature).expect("base64url"))
    }

    fn sign(pem: &str) -> Result<(Secret, Algorithm), String> {
        let used = std::cell::Cell::new(None);
        let signed = PrivateKeys.sign(&Secret::new(pem), &|algorithm| {
            used.set(Some(algorithm));
            "a.b".to_owned()
        })?;
        Ok((signed, used.get().expect("asked")))
    }

    #[test]
    fn the_kind_of_the_key_is_the_algorithm_and_the_signature_verifies() {
        let elliptic = KeyPair::generate().expect("a key");
        let (signed, algorithm) = sign(&elliptic.serialize_pem()).expect("signed");
        assert_eq!(algorithm, Algorithm::Es256);
        let (unsigned, signature) = parts(&signed);
        assert_eq!((unsigned.as_str(), signature.len()), ("a.b", 64));
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, elliptic.public_key_raw());
        public.verify(b"a.b", &signature).expect("it verifies");

        let rsa = rsa::KeyPair::generate(KeySize::Rsa2048).expect("a key");
        let der: aws_lc_rs::encoding::Pkcs8V1Der<'_> = rsa.as_der().expect("written");
        let text = ::pem::encode(&::pem::Pem::new("PRIVATE KEY", der.as_ref()));
        let (signed, algorithm) = sign(&text).expect("signed");
        assert_eq!(algorithm, Algorithm::Rs256);
        let (_, signature) = parts(&signed);
        let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, rsa.public_key().as_ref());
        public.verify(b"a.b", &signature).expect("it verifies");
    }

    #[test]
    fn what_is_no_key_is_said_without_what_it_is() {
        let other = KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).expect("a key");
        let noise = "-----BEGIN PRIVATE KEY-----\naHVzaA==\n-----END PRIVATE KEY-----\n";
        let table = [
            (other.serialize_pem(), "neither an RSA key"),
            (noise.to_owned(), "neither an RSA key"),
            ("hush".to_owned(), "must be PEM"),
        ];
        for (text, want) in table {
            let said = sign(&text).expect_err(&text);
            assert!(said.contains(want) && !said.contains("hush"), "{said}");
        }
    }
}
